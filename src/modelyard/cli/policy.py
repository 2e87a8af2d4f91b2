"""The flags of `modelyard run` that decide how models are stored and served. A bad value stops the operator at once."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelyard.core.policy import AccessMode, CacheMode
from modelyard.core.quantities import quantity, seconds
from modelyard.engines import ENGINES
from modelyard.kinds.model.api import EXTENDED_RESOURCE
from modelyard.net.addresses import permitted

if TYPE_CHECKING:
    from collections.abc import Callable


def _checked(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def verdict(value: Any) -> Any:
        try:
            check(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        return value

    return verdict


def listed(value: str) -> tuple[str, ...]:
    """Return the entries of a list that is written with commas."""
    return tuple(entry.strip() for entry in value.split(",") if entry.strip())


def images(value: str) -> dict[str, str]:
    """Return images by engine from `engine=image,...`."""
    pairs = dict(entry.partition("=")[::2] for entry in listed(value))
    for engine, image in pairs.items():
        if engine not in ENGINES or not image:
            raise ValueError(f"{engine}={image} is not engine=image; the engines are {', '.join(sorted(ENGINES))}")
    return pairs


def roots(value: str) -> tuple[str, ...]:
    """Return folders of nodes; each must be absolute and plain."""
    for folder in listed(value):
        if not folder.startswith("/") or ".." in PurePosixPath(folder).parts:
            raise ValueError(f"{folder} is not an absolute folder without ..")
    return listed(value)


def hosts(value: str) -> tuple[str, ...]:
    """Return host names, addresses and CIDRs."""
    permitted(listed(value))
    return listed(value)


def size(value: str) -> None:
    """Raise ValueError for a size that no claim can have."""
    if quantity(value) <= 0:
        raise ValueError(f"{value} is not a size such as 100Gi")


def interval(value: str) -> None:
    """Raise ValueError for an interval that would poll sources without a pause."""
    if seconds(value) < 1:
        raise ValueError(f"{value} is shorter than a second")


def folder(value: str) -> None:
    """Raise ValueError for a path where no volume can be mounted; empty: there is no cache."""
    if value and (not value.strip("/") or roots(value) != (value,)):
        raise ValueError(f"{value} is not an absolute folder such as /models")


def resource(value: str) -> None:
    """Raise ValueError for what cannot be the name of an extended resource."""
    if not re.fullmatch(EXTENDED_RESOURCE, value):
        raise ValueError(f"{value} is not domain/name, such as gpu.intel.com/i915")


def _option(flag: str, env: str, text: str, check: Callable[[Any], Any] | None = None) -> Any:
    return typer.Option(flag, envvar=env, help=text, callback=_checked(check) if check else None)


CachePath = Annotated[
    str,
    _option(
        "--model-cache-path", "MODELYARD_MODEL_CACHE_PATH", "Where pods find cached weights; empty: no cache.", folder
    ),
]
CacheSize = Annotated[
    str, _option("--model-cache-size", "MODELYARD_MODEL_CACHE_SIZE", "Size of the claim that is created.", size)
]
CacheClass = Annotated[
    str,
    _option(
        "--model-cache-storage-class",
        "MODELYARD_MODEL_CACHE_STORAGE_CLASS",
        "Its storage class; left out: the cluster's default.",
    ),
]
CacheAccess = Annotated[
    AccessMode,
    _option("--model-cache-access-mode", "MODELYARD_MODEL_CACHE_ACCESS_MODE", "From how many nodes it can be used."),
]
CacheSharing = Annotated[
    CacheMode,
    _option("--model-cache-mode", "MODELYARD_MODEL_CACHE_MODE", "One claim for a namespace, or one for each service."),
]
Revalidate = Annotated[
    str,
    _option(
        "--model-revalidate-interval",
        "MODELYARD_MODEL_REVALIDATE_INTERVAL",
        "How often upstream is asked whether a model changed.",
        interval,
    ),
]
CaConfigMap = Annotated[
    str,
    _option(
        "--ca-cert-configmap",
        "MODELYARD_CA_CERT_CONFIGMAP",
        "A ConfigMap, in each namespace with models, with certificates that downloads trust as well.",
    ),
]
FetchImage = Annotated[
    str, _option("--init-container-image", "MODELYARD_INIT_CONTAINER_IMAGE", "The image that runs `modelyard fetch`.")
]
FsGroup = Annotated[
    int,
    _option(
        "--default-fsgroup",
        "MODELYARD_DEFAULT_FSGROUP",
        "The group that volumes belong to; 0 or less: the cluster chooses groups and users, as OpenShift does.",
    ),
]
EngineImages = Annotated[
    str,
    _option("--runtime-images", "MODELYARD_RUNTIME_IMAGES", "Images of engines: llamacpp=...,vllm=...", images),
]
LocalRoots = Annotated[
    str,
    _option(
        "--allowed-host-path-roots",
        "MODELYARD_ALLOWED_HOST_PATH_ROOTS",
        "Folders of nodes that local sources may be in, with commas. Left out: there are no local sources.",
        roots,
    ),
]
SeesNodeFiles = Annotated[
    bool,
    _option(
        "--sees-node-files",
        "MODELYARD_SEES_NODE_FILES",
        "The operator runs on the only node and sees its files: it notices local sources that change.",
    ),
]
RemoteHosts = Annotated[
    str,
    _option(
        "--allowed-remote-hosts",
        "MODELYARD_ALLOWED_REMOTE_HOSTS",
        "Hosts, addresses and CIDRs that the operator may ask although they are not public, with commas.",
        hosts,
    ),
]
HostNetworks = Annotated[
    str | None,
    _option(
        "--host-networks",
        "MODELYARD_HOST_NETWORKS",
        "The same for InferenceHosts alone, with commas; empty: none. Left out: those of --allowed-remote-hosts.",
        lambda value: hosts(value or ""),
    ),
]
Door = Annotated[
    bool,
    _option("--door", "MODELYARD_DOOR", "Give each namespace with models one address for all of them: modelyard-door."),
]
IntelResource = Annotated[
    str, _option("--intel-gpu-resource", "LLMKUBE_INTEL_GPU_RESOURCE", "What the cluster calls Intel GPUs.", resource)
]
