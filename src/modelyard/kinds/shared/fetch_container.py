"""The container that fetches weights, the volumes it works on, and where it puts them.

Services run it before their engine starts, the prefetch Job runs it alone: both build it here, so that one finds what
the other has fetched.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from msgspec import Struct

from modelyard.core import names
from modelyard.core.plan import CreateOnly
from modelyard.core.policy import AccessMode, CacheMode, Policy
from modelyard.core.resources import VOLUME_CLAIM
from modelyard.core.source import S3, Hub, Local, Source, Web, cache_key, is_collection, parts, redacted
from modelyard.engines.contract import Loads
from modelyard.kinds.model.api import Format, ModelSpec, RefreshPolicy
from modelyard.kinds.shared import pods
from modelyard.kinds.shared.fetch_report import CONTAINER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored

Json = dict[str, Any]

DEFAULT_USER: Final = 1000
"""Numeric, so that the kubelet can tell that it is not root; the same for all, so that one can go on with another's."""

SHARED_CLAIM: Final = "llmkube-model-cache"

_CACHE, _POD_STORAGE, _HOME, _CERTIFICATES, _HOST = (
    "model-cache",
    "model-storage",
    "fetch-home",
    "custom-certs",
    "host-model",
)
_MODELS: Final = "/models"
_MOST_PARTS: Final = 200


class Cache(Struct, frozen=True):
    """The volume that weights are fetched onto."""

    volume: Json
    claims: tuple[CreateOnly, ...] = ()
    """What must exist first, and is created if it does not."""


class FetchTask(Struct, frozen=True):
    """What is to be fetched, and for whom."""

    namespace: str
    name: str
    spec: ModelSpec
    source: Source
    loads: Loads
    prefix: str = ""

    @property
    def fetches_many(self) -> bool:
        """Whether the source names a collection of files, of which the engine serves the folder."""
        return is_collection(self.source) and self.loads is Loads.FOLDER

    @property
    def loads_folder(self) -> bool:
        """Whether the engine is told a folder, and not a file."""
        return self.fetches_many or (self.loads is Loads.FOLDER and self.spec.format is not Format.GGUF)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of all parts of a split model, from the name of any of them; empty when it is not split."""
        return parts(_file_of(self.source), _MOST_PARTS)


def is_incomplete_split(source: Source) -> bool:
    """Whether a source names a part of a split model from a place that cannot be asked for the others."""
    found = parts(_file_of(source), _MOST_PARTS)
    if not found or isinstance(source, Hub):
        return False
    return not isinstance(source, S3) or "/" not in source.key or len(found) > _MOST_PARTS


def _file_of(source: Source) -> str:
    match source:
        case Web():
            return source.name
        case Hub():
            return source.file
        case S3():
            return source.key.rpartition("/")[2]
        case Local():
            return posixpath.basename(source.path)
    return ""


def secret_name(spec: ModelSpec, source: Source) -> str:
    """Return the Secret that the downloader needs; empty when nothing is fetched over a network."""
    return spec.source_secret_ref.name if spec.source_secret_ref and isinstance(source, Web | Hub | S3) else ""


def resolve_url(source: Hub) -> str:
    """Return where a file of a repository is."""
    return f"https://huggingface.co/{source.repo}/resolve/{quote(source.revision, safe='')}/{quote(source.file)}"


def weights_root(policy: Policy) -> str:
    """Return the folder under which pods find weights."""
    return policy.cache_path or _MODELS


def model_path(task: FetchTask, policy: Policy) -> str:
    """Return what the engine is told to load."""
    if task.loads_folder:
        return weights_folder(task, policy)
    return f"{weights_folder(task, policy)}/{task.parts[0] if task.parts else link_name(task, policy)}"


def weights_folder(task: FetchTask, policy: Policy) -> str:
    """Return the folder that the files are put into."""
    if policy.cache_path:
        return f"{policy.cache_path}/{cache_key(task.spec.source)}"
    # Two models of one pod must not share a folder: what one brings is not part of the other.
    own = f"{_MODELS}/{task.prefix}" if task.prefix else _MODELS
    return f"{own}/{task.namespace}-{task.name}" if task.loads_folder else own


def link_name(task: FetchTask, policy: Policy) -> str:
    """Return the name that the one file can be found by, whatever upstream calls it."""
    return f"{safe_file_name(task.name)}.gguf" if policy.cache_path else f"{task.namespace}-{task.name}.gguf"


def safe_file_name(name: str) -> str:
    """Return a file name made of letters, digits, dots, dashes and underscores only."""
    clean = re.sub(r"-+", "-", re.sub(r"[^A-Za-z0-9._-]", "-", name)).strip("-._")
    return clean or "model"


def cache(policy: Policy, service: str, *, claim: str = "", limit: str = "") -> Cache:
    """Return the volume that weights are fetched onto: the cache, or a folder that lives and dies with the pod.

    `claim` is one of the user's own, which is never created, and `limit` is how large the folder of a pod may become.
    """
    if not policy.cache_path:
        return Cache({"name": _POD_STORAGE, "emptyDir": pods.without_empty({"sizeLimit": limit})})
    name = claim or _claim_name(policy, service)
    volume = {"name": _CACHE, "persistentVolumeClaim": {"claimName": name}}
    return Cache(volume, () if claim else (_claim(policy, name),))


def other_volumes(task: FetchTask, policy: Policy) -> Iterator[Json]:
    """Return what the downloader needs besides: somewhere to write, certificates, the file of the node."""
    yield {"name": _HOME, "emptyDir": {}}
    if policy.ca_configmap:
        yield {"name": _CERTIFICATES, "configMap": {"name": policy.ca_configmap}}
    if isinstance(task.source, Local):
        yield {"name": _host_volume(task), "hostPath": {"path": task.source.path, "type": "File"}}


def _claim(policy: Policy, name: str) -> CreateOnly:
    """Return the claim of the cache. The shared one belongs to nobody and is never changed."""
    shared = policy.cache_mode is CacheMode.SHARED
    labels = {
        names.NAME_LABEL: "llmkube",
        "app.kubernetes.io/component": "model-cache",
        names.MANAGED_BY: names.MANAGER,
    }
    spec = {
        "accessModes": [(policy.cache_access if shared else AccessMode.ONE_NODE).value],
        "resources": {"requests": {"storage": policy.cache_size}},
        "storageClassName": policy.cache_class,
    }
    body = {
        "apiVersion": VOLUME_CLAIM.api_version,
        "kind": VOLUME_CLAIM.kind,
        "metadata": {"name": name, "labels": labels},
        # An empty class would mean "no class"; only left out does it mean the cluster's default.
        "spec": pods.without_empty(spec),
    }
    return CreateOnly(VOLUME_CLAIM, name, body, shared=shared)


def kept_on(pod: Stored) -> str:
    """Return the claim that a pod keeps fetched weights on; empty when it keeps them on none."""
    claims = {one.get("name"): one.get("persistentVolumeClaim", {}) for one in pod.spec.get("volumes", ())}
    return str(claims.get(_CACHE, {}).get("claimName", ""))


def _claim_name(policy: Policy, service: str) -> str:
    return SHARED_CLAIM if policy.cache_mode is CacheMode.SHARED else f"{service}-model-cache"


def container(task: FetchTask, policy: Policy, env: tuple[Json, ...] = (), user: int = 0) -> Json:
    """Return the container that fetches, and says in its termination message how that went."""
    secret = secret_name(task.spec, task.source)
    number = user or (DEFAULT_USER if policy.chooses_users else None)
    identity = pods.without_empty({"runAsUser": number, "runAsGroup": number})
    security = {**identity, "runAsNonRoot": True, "readOnlyRootFilesystem": True}
    body = {
        "name": f"{task.prefix}-{CONTAINER}" if task.prefix else CONTAINER,
        "image": policy.fetch_image,
        "command": ["modelyard"],
        "args": ["fetch", *_arguments(task, policy)],
        "env": pods.unique_env([{"name": "HOME", "value": "/tmp"}], _source_env(task), env),  # noqa: S108 - an emptyDir of the pod's own
        "envFrom": [{"secretRef": {"name": secret}}] if secret else [],
        "resources": {"requests": pods.DEFAULT_REQUESTS},
        "volumeMounts": list(_mounts(task, policy)),
        "securityContext": pods.container_security(security),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return pods.without_empty(body)


def identifying_args(task: FetchTask, policy: Policy) -> tuple[str, ...]:
    """Return the first words of every downloader that brings these weights, for whichever engine."""
    place = ("--to", weights_folder(task, policy)) if policy.cache_path else ()
    return ("fetch", *_source_args(task), *place)


def _mounts(task: FetchTask, policy: Policy) -> Iterator[Json]:
    yield {"name": _CACHE if policy.cache_path else _POD_STORAGE, "mountPath": weights_root(policy)}
    yield {"name": _HOME, "mountPath": "/tmp"}  # noqa: S108 - an emptyDir of the pod's own
    if policy.ca_configmap:
        yield {"name": _CERTIFICATES, "mountPath": "/custom-certs", "readOnly": True}
    if isinstance(task.source, Local):
        yield {"name": _host_volume(task), "mountPath": _host_mount_path(task.source), "readOnly": True}


def _arguments(task: FetchTask, policy: Policy) -> Iterator[str]:
    yield from _source_args(task)
    yield from ("--to", weights_folder(task, policy))
    if task.fetches_many:
        yield "--all"
    elif not task.parts and not task.loads_folder:
        yield from ("--link", link_name(task, policy))
    if task.spec.sha256 and not task.fetches_many and not task.parts:
        yield from ("--sha256", task.spec.sha256.lower())
    if task.spec.refresh_policy is RefreshPolicy.ON_CHANGE:
        yield from ("--refresh", "on-change")
    if policy.ca_configmap:
        yield from ("--ca", "/custom-certs")


def _source_args(task: FetchTask) -> Iterator[str]:
    match task.source:
        case Local():
            # The file itself and nothing beside it, wherever a node without containers really has it.
            yield from (_host_mount_path(task.source), "--allow-root", _host_mount_path(task.source))
        case S3() if task.parts:
            # A bucket is not asked what belongs together, but the name of one part tells the names of all.
            yield task.spec.source.rpartition("/")[0] + "/"
            yield from (word for part in task.parts for word in ("--file", part))
        case _ if not _source_env(task):
            yield task.spec.source


def _source_env(task: FetchTask) -> list[Json]:
    """Return the source as a variable if it holds a password or a signature: arguments show in lists of processes."""
    if redacted(task.spec.source) == task.spec.source:
        return []
    return [{"name": "MODEL_SOURCE", "value": task.spec.source}]


def _host_volume(task: FetchTask) -> str:
    return f"{task.prefix}-{_HOST}" if task.prefix else _HOST


def _host_mount_path(source: Local) -> str:
    # Not the name as it is: a mount path must not hold a colon.
    return f"/{_HOST}/{safe_file_name(posixpath.basename(source.path))}"
