"""The volumes of a pod, as folders of this machine: the volume manager of the kubelet.

`pod_worker` prepares them before the containers start, and again every two seconds. emptyDir, ConfigMap, Secret,
downwardAPI and projected volumes are folders of the pod. A claim is the folder of the volume that it is bound to, a
hostPath the path itself. Files of Secrets and the like are replaced when their source changes, each in one step.
`path_mapping` says how a process finds them. To a process no volume is read-only, and a hostPath of the type File may
be missing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from modelyard.core.resources import VOLUME_CLAIM, Key, Resource
from modelyard.kube.errors import NotFound
from modelyard.local.files import private_folder, write_private
from modelyard.local.node.pods.config_sources import ConfigMissing, ConfigSources
from modelyard.local.node.pods.downward_api import read_field, read_resource
from modelyard.local.node.podspec import ClaimSource, HostPath
from modelyard.local.node.storage.provisioner import PERSISTENT_VOLUME, is_ours, volume_folder

if TYPE_CHECKING:
    from modelyard.core.objects import Metadata, Stored
    from modelyard.kube.client import Client
    from modelyard.local.node.pods.config_sources import Content
    from modelyard.local.node.pods.downward_api import PodContext
    from modelyard.local.node.podspec import (
        DownwardSource,
        Item,
        KeysSource,
        ProjectedSource,
        Projection,
        TokenSource,
        Volume,
    )
    from modelyard.local.node.storage.pod_folders import PodFolder

# The share of its lifetime after which a token is renewed, as by the kubelet.
_RENEW_AT: Final = 0.8
_MODE: Final = 0o644
# Only for the user who runs the node, whatever a `defaultMode` grants to others.
_OWNER: Final = 0o700
_CHECKS: Final = {
    "Directory": Path.is_dir,
    "DirectoryOrCreate": Path.is_dir,
    "File": Path.is_file,
    "FileOrCreate": Path.is_file,
    "Socket": Path.is_socket,
    "CharDevice": Path.is_char_device,
    "BlockDevice": Path.is_block_device,
}


class File(Struct, frozen=True):
    """The content and mode of one file of a volume."""

    content: bytes
    mode: int = _MODE


class _Token(Struct, frozen=True):
    text: str
    renew: datetime


Files = dict[str, File]


class Volumes:
    """The volumes of one pod."""

    def __init__(self, client: Client, pod: PodContext, folder: PodFolder) -> None:
        self._client, self._pod, self._folder = client, pod, folder
        self._tokens: dict[TokenSource, _Token] = {}
        self._real: dict[str, Path] = {}

    @property
    def may_change(self) -> bool:
        """Whether a volume holds copies of what may change while the pod runs: Secrets, labels, tokens and the like."""
        volumes = self._pod.spec.volumes
        return any(each.config_map or each.secret or each.downward_api or each.projected for each in volumes)

    def update(self, meta: Metadata) -> None:
        """Take the metadata of a newer version of the pod, for the next `prepare`."""
        self._pod = structs.replace(self._pod, meta=meta)

    async def prepare(self) -> None:
        """Make every volume of the pod, or bring it up to date; ConfigMissing when its source is not there yet."""
        sources = ConfigSources(self._client, self._pod.meta.namespace)
        for volume in self._pod.spec.volumes:
            self._real[volume.name] = await self._prepared(volume, sources)

    def path(self, name: str) -> Path:
        """Return the folder of a volume that `prepare` has made."""
        return self._real[name]

    async def _prepared(self, volume: Volume, sources: ConfigSources) -> Path:
        if volume.persistent_volume_claim is not None:
            return await self._claimed(volume.persistent_volume_claim)
        if volume.ephemeral is not None:
            # The ephemeral volume controller makes a claim of this name from the template.
            return await self._claimed(ClaimSource(f"{self._pod.meta.name}-{volume.name}"))
        if volume.host_path is not None:
            return _host_path(volume.host_path)
        folder = self._folder.volume(volume.name)
        # Not its parents: of a state folder that was removed or moved, no part may come back.
        folder.mkdir(mode=0o700, exist_ok=True)
        if volume.empty_dir is None:
            write_files(folder, await self._files(volume, sources))
        return folder

    async def _claimed(self, claim: ClaimSource) -> Path:
        namespace, name = self._pod.meta.namespace, claim.claim_name
        try:
            bound = (await self._client.get(VOLUME_CLAIM, Key(namespace, name))).spec.get("volumeName", "")
            volume = await self._client.get(PERSISTENT_VOLUME, Key("", bound)) if bound else None
        except NotFound:
            raise ConfigMissing(f"PersistentVolumeClaim {namespace}/{name} does not exist; create it") from None
        path = self._place(volume) if volume else ""
        if not path:
            raise ConfigMissing(f"PersistentVolumeClaim {namespace}/{name} is not bound to a folder of this machine")
        return _host_path(HostPath(path, "DirectoryOrCreate"))

    def _place(self, volume: Stored) -> str:
        if is_ours(volume):
            return str(volume_folder(self._folder.state, volume.meta.name))
        spec = volume.spec
        return str((spec.get("hostPath") or spec.get("local") or {}).get("path", ""))

    async def _files(self, volume: Volume, sources: ConfigSources) -> Files:
        if volume.config_map is not None:
            source = volume.config_map
            return _keys(f"ConfigMap {source.name}", source, await sources.config_map(source.name))
        if volume.secret is not None:
            secret = volume.secret
            return _keys(f"Secret {secret.secret_name}", secret, await sources.secret(secret.secret_name))
        if volume.downward_api is not None:
            return self._downward(volume.downward_api)
        if volume.projected is not None:
            return await self._projected(volume.projected, sources)
        raise ConfigMissing(
            f"volume {volume.name} is of a kind that one machine does not have; use a claim or emptyDir"
        )

    async def _projected(self, source: ProjectedSource, sources: ConfigSources) -> Files:
        files: Files = {}
        for part in source.sources:
            files |= await self._projection(part, sources)
        return files

    async def _projection(self, part: Projection, sources: ConfigSources) -> Files:
        if part.config_map is not None:
            name = part.config_map.name
            return _keys(f"ConfigMap {name}", part.config_map, await sources.config_map(name))
        if part.secret is not None:
            return _keys(f"Secret {part.secret.name}", part.secret, await sources.secret(part.secret.name))
        if part.downward_api is not None:
            return self._downward(part.downward_api)
        if part.service_account_token is not None:
            return {part.service_account_token.path: File(await self._token(part.service_account_token))}
        return {}

    def _downward(self, source: DownwardSource) -> Files:
        mode = source.default_mode or _MODE
        return {item.path: File(self._field(item).encode(), item.mode or mode) for item in source.items}

    def _field(self, item: Item) -> str:
        if item.field_ref is not None:
            return read_field(self._pod, item.field_ref.field_path)
        if item.resource_field_ref is not None:
            return read_resource(self._pod, self._pod.spec.containers[0], item.resource_field_ref)
        return ""

    async def _token(self, source: TokenSource) -> bytes:
        known, now = self._tokens.get(source), datetime.now(UTC)
        if known is None or now >= known.renew:
            known = self._tokens[source] = await self._new_token(source, now)
        return known.text.encode()

    async def _new_token(self, source: TokenSource, now: datetime) -> _Token:
        meta, account = self._pod.meta, self._pod.spec.service_account_name
        # TokenRequest is a subresource of the ServiceAccount, and has no collection of its own.
        resource = Resource("", "v1", "TokenRequest", f"serviceaccounts/{account}/token")
        spec = {
            "audiences": [source.audience] if source.audience else [],
            "expirationSeconds": source.expiration_seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid},
        }
        try:
            answer = await self._client.create(resource, {"metadata": {"namespace": meta.namespace}, "spec": spec})
        except NotFound:
            raise ConfigMissing(f"ServiceAccount {meta.namespace}/{account} does not exist; create it") from None
        return _Token(answer.status["token"], now + timedelta(seconds=source.expiration_seconds * _RENEW_AT))


def _keys(what: str, source: KeysSource, content: Content | None) -> Files:
    """Return the files of a Secret or ConfigMap: all its keys, or those listed. Content None: it does not exist."""
    if content is None and not source.optional:
        raise ConfigMissing(f"{what} does not exist; create it, or correct the volume")
    content, mode = content or {}, source.default_mode or _MODE
    if not source.items:
        return {key: File(value, mode) for key, value in content.items()}
    absent = [item.key for item in source.items if item.key not in content]
    if absent and not source.optional:
        raise ConfigMissing(f"{what} has no key {', '.join(absent)}; add it, or correct the volume")
    return {item.path: File(content[item.key], item.mode or mode) for item in source.items if item.key in content}


def _host_path(source: HostPath) -> Path:
    path = Path(source.path)
    if source.type == "DirectoryOrCreate" and not path.exists():
        path.mkdir(mode=0o700, parents=True)
    if source.type == "FileOrCreate" and not path.exists():
        path.touch(mode=0o600)
    if source.type == "File" and not path.exists():
        # Left to the process that reads it: the downloader needs no source for weights that the cache holds.
        return path
    if not path.exists():
        raise ConfigMissing(f"hostPath {path} does not exist on this machine; create it, or correct the volume")
    if source.type in _CHECKS and not _CHECKS[source.type](path):
        raise ConfigMissing(f"hostPath {path} is not of the type {source.type}; correct the path or the type")
    return path


def write_files(folder: Path, files: Files) -> None:
    """Make a folder hold exactly these files. Each is replaced in one step, so that no process reads half of one."""
    wanted = {folder / PurePosixPath(path): file for path, file in files.items()}
    for path, file in wanted.items():
        private_folder(path.parent)
        if not path.is_file() or path.read_bytes() != file.content:
            write_private(path, file.content)
        path.chmod(file.mode & _OWNER)
    for stale in {each for each in folder.rglob("*") if each.is_file()} - wanted.keys():
        stale.unlink()
