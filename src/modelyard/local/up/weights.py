"""The weights in the caches of a `modelyard up`: which Model they belong to, and how large they are.

`commands` lists them, and removes those of deleted Models when the user asks for it. Nothing else ever does: weights
that took hours to download outlive the Model, for the next one with the same source.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core.resources import POD, VOLUME_CLAIM
from modelyard.core.source import cache_key
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.local.files import folder_size
from modelyard.local.node.storage.provisioner import volume_folder
from modelyard.weights.manifest import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Resource
    from modelyard.kube.client import Client

_CACHES: Final = "app.kubernetes.io/component=model-cache"


class Weights(Struct, frozen=True):
    """What one source has left in the cache of a namespace."""

    namespace: str
    source: str
    """Without passwords; empty: the download was never complete."""
    size: int
    folder: Path
    models: tuple[str, ...] = ()
    """The Models of the namespace that have this source; empty: they are deleted."""
    is_mounted: bool = False
    """Whether a pod uses the folder, although the Model may be deleted."""

    @property
    def is_removable(self) -> bool:
        """Whether neither a Model nor a pod needs it."""
        return not self.models and not self.is_mounted


def are_kept(state: Path, source: str) -> bool:
    """Whether a cache of a state folder has all weights of a source. Nothing has to run."""
    return any(load(folder) for folder in volume_folder(state, "").glob(f"*/{cache_key(source)}"))


async def list_weights(client: Client, state: Path) -> list[Weights]:
    """Return the weights in the caches of all namespaces, those of deleted Models last."""
    claims = await _list(client, VOLUME_CLAIM, _CACHES)
    # Models last: one that is made meanwhile must count.
    pods, models = await _list(client, POD), await _list(client, MODEL)
    found = [each for claim in claims for each in _of_claim(claim, state, models, pods)]
    return sorted(found, key=lambda each: (each.is_removable, each.namespace, each.models, each.source))


async def _list(client: Client, resource: Resource, selector: str = "") -> list[Stored]:
    page = await client.list_page(resource, selector=selector)
    items = page.items
    # All pages: a Model that is missed here would lose its weights.
    while page.token:
        page = await client.list_page(resource, selector=selector, token=page.token)
        items = [*items, *page.items]
    return items


def _of_claim(claim: Stored, state: Path, models: Iterable[Stored], pods: Iterable[Stored]) -> Iterator[Weights]:
    namespace, cache = claim.meta.namespace, volume_folder(state, claim.spec.get("volumeName", ""))
    owners = [model for model in models if model.meta.namespace == namespace]
    specs = [pod.parts.get("spec", b"") for pod in pods if pod.meta.namespace == namespace]
    for folder in _folders(cache) if claim.spec.get("volumeName") else ():
        names = (model.meta.name for model in owners if cache_key(model.spec.get("source", "")) == folder.name)
        manifest = load(folder)
        yield Weights(
            namespace=namespace,
            source=manifest.source if manifest else "",
            size=folder_size(folder),
            folder=folder,
            models=tuple(sorted(names)),
            is_mounted=any(folder.name.encode() in spec for spec in specs),
        )


def _folders(cache: Path) -> list[Path]:
    """Return the folders of a cache that are named like the key of a source. Others are not ours to remove."""
    length = len(cache_key(""))
    return [each for each in (cache.iterdir() if cache.is_dir() else ()) if each.is_dir() and len(each.name) == length]


def remove(weights: Iterable[Weights]) -> int:
    """Remove the weights that neither a Model nor a pod needs, and return how many bytes that were."""
    removable = [each for each in weights if each.is_removable]
    for each in removable:
        shutil.rmtree(each.folder)
    return sum(each.size for each in removable)
