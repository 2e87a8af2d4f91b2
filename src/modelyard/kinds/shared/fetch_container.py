"""The container that runs `modelyard fetch`, its volumes, and the paths that it puts weights under.

Pods of services run it as an init container, the prefetch Job as its only one. Both are built here, or one would not
find what the other has fetched.
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
"""A number, because the kubelet cannot tell whether a name is root. The same for all pods, which share their files."""

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
    """The volume of a pod that weights are fetched onto."""

    volume: Json
    claims: tuple[CreateOnly, ...] = ()
    """PersistentVolumeClaims to create first; empty: the user has created it, or none is needed."""


class FetchTask(Struct, frozen=True):
    """The weights of one Model that a container fetches, and how the engine will load them."""

    namespace: str
    name: str
    spec: ModelSpec
    source: Source
    loads: Loads
    prefix: str = ""

    @property
    def fetches_many(self) -> bool:
        """Whether all files of a collection are fetched, for an engine that loads a folder."""
        return is_collection(self.source) and self.loads is Loads.FOLDER

    @property
    def loads_folder(self) -> bool:
        """Whether the engine loads a folder, and not one file of it."""
        return self.fetches_many or (self.loads is Loads.FOLDER and self.spec.format is not Format.GGUF)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of all parts of a split GGUF, from the name of any of them; empty: it is not split."""
        return parts(_file_of(self.source), _MOST_PARTS)


def is_incomplete_split(source: Source) -> bool:
    """Return whether a source names one part of a split GGUF and the other parts cannot be found from it."""
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
    """Return the name of the Secret that the downloader needs; empty: none, or nothing is fetched over a network."""
    return spec.source_secret_ref.name if spec.source_secret_ref and isinstance(source, Web | Hub | S3) else ""


def resolve_url(source: Hub) -> str:
    """Return the URL of a file of a repository of the hub."""
    return f"https://huggingface.co/{source.repo}/resolve/{quote(source.revision, safe='')}/{quote(source.file)}"


def weights_root(policy: Policy) -> str:
    """Return the mount path of the volume with the weights."""
    return policy.cache_path or _MODELS


def model_path(task: FetchTask, policy: Policy) -> str:
    """Return the path of the file or folder that the engine loads."""
    if task.loads_folder:
        return weights_folder(task, policy)
    return f"{weights_folder(task, policy)}/{task.parts[0] if task.parts else link_name(task, policy)}"


def weights_folder(task: FetchTask, policy: Policy) -> str:
    """Return the folder that the files are fetched into."""
    if policy.cache_path:
        return f"{policy.cache_path}/{cache_key(task.spec.source)}"
    # A draft model gets a folder of its own: an engine that loads a folder would load the files of both.
    own = f"{_MODELS}/{task.prefix}" if task.prefix else _MODELS
    return f"{own}/{task.namespace}-{task.name}" if task.loads_folder else own


def link_name(task: FetchTask, policy: Policy) -> str:
    """Return the name of the link to the one file, whose own name only the source knows."""
    return f"{safe_file_name(task.name)}.gguf" if policy.cache_path else f"{task.namespace}-{task.name}.gguf"


def safe_file_name(name: str) -> str:
    """Return a file name of letters, digits, dots, dashes and underscores only."""
    clean = re.sub(r"-+", "-", re.sub(r"[^A-Za-z0-9._-]", "-", name)).strip("-._")
    return clean or "model"


def cache(policy: Policy, service: str, *, claim: str = "", limit: str = "") -> Cache:
    """Return the volume that weights are fetched onto: a claim, or an emptyDir if the policy has no cache.

    `claim` is one of the user, which is never created; empty: one of ours. `limit` is the sizeLimit of the emptyDir.
    """
    if not policy.cache_path:
        return Cache({"name": _POD_STORAGE, "emptyDir": pods.without_empty({"sizeLimit": limit})})
    name = claim or _claim_name(policy, service)
    volume = {"name": _CACHE, "persistentVolumeClaim": {"claimName": name}}
    return Cache(volume, () if claim else (_claim(policy, name),))


def other_volumes(task: FetchTask, policy: Policy) -> Iterator[Json]:
    """Yield the further volumes of the downloader: a home folder, CA certificates, the file of the node."""
    yield {"name": _HOME, "emptyDir": {}}
    if policy.ca_configmap:
        yield {"name": _CERTIFICATES, "configMap": {"name": policy.ca_configmap}}
    if isinstance(task.source, Local):
        yield {"name": _host_volume(task), "hostPath": {"path": task.source.path, "type": "File"}}


def _claim(policy: Policy, name: str) -> CreateOnly:
    """Return the PersistentVolumeClaim of the cache. The shared one has no owner and is never changed."""
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
    """Return the claim that a pod fetches weights onto; empty: it uses an emptyDir, or fetches none."""
    claims = {one.get("name"): one.get("persistentVolumeClaim", {}) for one in pod.spec.get("volumes", ())}
    return str(claims.get(_CACHE, {}).get("claimName", ""))


def _claim_name(policy: Policy, service: str) -> str:
    return SHARED_CLAIM if policy.cache_mode is CacheMode.SHARED else f"{service}-model-cache"


def container(task: FetchTask, policy: Policy, env: tuple[Json, ...] = (), user: int = 0) -> Json:
    """Return the container that fetches the weights, and reports in its termination message."""
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
    """Return the first arguments of every downloader of these weights, for any engine: pods are recognised by them."""
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
            # The file alone is allowed: on one machine, where nothing is mounted, its folder may hold other files.
            yield from (_host_mount_path(task.source), "--allow-root", _host_mount_path(task.source))
        case S3() if task.parts:
            # Listing a bucket may not be allowed, but the name of one part tells the names of all.
            yield task.spec.source.rpartition("/")[0] + "/"
            yield from (word for part in task.parts for word in ("--file", part))
        case _ if not _source_env(task):
            yield task.spec.source


def _source_env(task: FetchTask) -> list[Json]:
    """Return the source as an environment variable if it holds a secret: arguments show in process lists."""
    if redacted(task.spec.source) == task.spec.source:
        return []
    return [{"name": "MODEL_SOURCE", "value": task.spec.source}]


def _host_volume(task: FetchTask) -> str:
    return f"{task.prefix}-{_HOST}" if task.prefix else _HOST


def _host_mount_path(source: Local) -> str:
    # The API server refuses a mount path with a colon.
    return f"/{_HOST}/{safe_file_name(posixpath.basename(source.path))}"
