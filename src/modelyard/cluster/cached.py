"""Which weights are on which claim, how big they are and what uses them. Pure; `modelyard cache` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core import names
from modelyard.core.errors import SpecInvalid
from modelyard.core.objects import Stored
from modelyard.core.source import cache_key, redacted
from modelyard.kinds.decode import decode
from modelyard.kinds.model.sizes import size_text
from modelyard.kinds.modeldeployment import MODEL_DEPLOYMENT, weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from modelyard.core.resources import Key
    from modelyard.weights.cache import Folder


class Cached(Struct, frozen=True, rename="camel"):
    """The weights of one source on one claim."""

    namespace: str
    claim: str
    key: str
    """The folder: a hash of the source."""
    source: str
    size: int | None
    """In bytes; None: not known without a scan of the volume."""
    used_by: tuple[str, ...] = ()
    """Models and ModelDeployments that want it, and pods that name the folder; empty: nothing uses it."""
    files: tuple[str, ...] = ()
    count: int = 0

    @property
    def shown_size(self) -> str:
        """The size for people."""
        return "?" if self.size is None else size_text(self.size)


class Cache(Struct, frozen=True):
    """What `modelyard cache -o json` prints."""

    weights: tuple[Cached, ...]
    claims: tuple[str, ...]
    """All claims that are caches, also those of which nothing is known."""


class Users(Struct, frozen=True):
    """What may use weights: Models, ModelDeployments and pods, of all namespaces."""

    models: tuple[Stored, ...]
    deployments: tuple[Stored, ...]
    pods: tuple[Stored, ...]

    def of(self, claim: Stored, key: str) -> Iterator[str]:
        """Yield the objects and pods that need a folder of a claim."""
        namespace = claim.meta.namespace
        for model in self.models if _is_cache(claim) else ():
            if model.meta.namespace == namespace and cache_key(model.spec.get("source", "")) == key:
                yield f"Model {model.meta.name}"
        for deployment in self.deployments:
            if deployment.meta.namespace == namespace and _needs(deployment, claim.meta.name, key):
                yield f"ModelDeployment {deployment.meta.name}"
        for pod in self.pods:
            # A pod whose Model is deleted still reads the folder, which its arguments name.
            if pod.meta.namespace == namespace and key.encode() in pod.parts.get("spec", b""):
                yield f"Pod {pod.meta.name}"


def _is_cache(claim: Stored) -> bool:
    """Return whether the weights of Models are fetched onto a claim; False: it belongs to a ModelDeployment."""
    return claim.meta.label(names.COMPONENT_LABEL) == "model-cache"


def _needs(deployment: Stored, claim: str, key: str) -> bool:
    """Return whether a ModelDeployment wants or serves what is in a folder of a claim."""
    told = deployment.status.get("weights") or {}
    stated = (deployment.spec.get("storage") or {}).get("existingClaim")
    if claim not in (weights.own_claim_name(deployment.meta.name), told.get("claim"), stated):
        return False
    try:
        wanted = weights.source_text(decode(MODEL_DEPLOYMENT, deployment).spec)
    except SpecInvalid:
        # What it will want once it is mended is not known.
        return True
    sources = (wanted, told.get("source"), deployment.status.get("servedSource"))
    return any(source and cache_key(source) == key for source in sources)


def cached(claims: Sequence[Stored], users: Users, scans: Mapping[Key, Iterable[Folder]]) -> Cache:
    """Return the weights of all claims: as scanned, or else as the objects of the namespace say."""
    found = [each for claim in claims for each in _of_claim(claim, users, scans.get(claim.meta.key))]
    ordered = sorted(found, key=lambda each: (each.namespace, each.claim, not each.used_by, each.source, each.key))
    return Cache(tuple(ordered), tuple(sorted(str(claim.meta.key) for claim in claims)))


def _of_claim(claim: Stored, users: Users, folders: Iterable[Folder] | None) -> Iterator[Cached]:
    namespace, name = claim.meta.key
    if folders is None:
        yield from _as_told(claim, users)
        return
    for folder in folders:
        used_by = tuple(users.of(claim, folder.key))
        source = folder.source or "not complete"
        yield Cached(namespace, name, folder.key, source, folder.size, used_by, folder.files, folder.count)


def _as_told(claim: Stored, users: Users) -> Iterator[Cached]:
    """Yield the weights of which the status of an object says that they are on a claim."""
    sizes: dict[str, int | None] = {}
    for model in users.models if _is_cache(claim) else ():
        if model.meta.namespace == claim.meta.namespace and model.status.get("cacheKey"):
            length = model.status.get("sourceContentLength")
            sizes[str(model.spec.get("source", ""))] = length if isinstance(length, int) and length else None
    for deployment in users.deployments:
        told = deployment.status.get("weights") or {}
        if deployment.meta.namespace == claim.meta.namespace and told.get("claim") == claim.meta.name:
            sizes.setdefault(str(told.get("source", "")), None)
    for source, size in sizes.items():
        key = cache_key(source)
        yield Cached(*claim.meta.key, key, redacted(source), size, tuple(users.of(claim, key)))


def unused(found: Cache, wanted: Sequence[str]) -> list[Cached]:
    """Return the weights that nothing uses; if keys are given, only those of them."""
    return [each for each in found.weights if not each.used_by and (not wanted or each.key in wanted)]
