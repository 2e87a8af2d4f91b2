"""Which weights stay on the claim of a ModelDeployment when others are fetched onto it.

Each source has a folder of its own there, and without this the claim would fill up. The Job that fetches removes all
but two: what it fetches, and what pods serve. A Job that was told so must have ended before weights that it removes are
fetched again, so `plan` waits for its pods. It is replaced as soon as another object uses the claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.resources import VOLUME_CLAIM
from modelyard.core.source import cache_key
from modelyard.kinds.contract import Named
from modelyard.kinds.modeldeployment import download, drain, sharing, version, weights
from modelyard.kinds.modeldeployment.api import WEIGHTS_LABEL
from modelyard.kinds.modeldeployment.download import Stage
from modelyard.kinds.shared.pods import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec


def reads(md: Object[ModelDeploymentSpec], seen: Seen) -> Iterator[Read]:
    """Name what may use the claim that weights are fetched onto, while they are not complete."""
    if _shares_claim(md, seen):
        yield sharing.pods(md.meta.namespace)
    elif _may_prune(md, seen):
        yield from sharing.reads(md.meta.namespace)


def _shares_claim(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether weights are to be fetched onto a claim of which another object may be the owner."""
    name = md.spec.storage.existing_claim
    is_there = bool(name) and seen.one(Named(VOLUME_CLAIM, name)) is not None
    return is_there and download.stage(md, seen) is not Stage.PRESENT


def _may_prune(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether weights are to be fetched onto a claim that may hold some which no version uses any more."""
    if md.spec.storage.existing_claim or not (version.earlier(md, seen) or _prunes(md, seen)):
        return False
    return download.stage(md, seen) is not Stage.PRESENT


def _prunes(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    job = download.wanted_job(md, seen)
    return job is not None and sharing.prunes(sharing.pod_of(job))


def folders_to_keep(md: Object[ModelDeploymentSpec], seen: Seen) -> tuple[str, ...]:
    """Return the folders that a Job keeps when it removes all others; empty: it must remove none.

    On a claim of the user, others may read what we do not know of, and a claim of ours may be used by another object.
    Pods of earlier versions may still be stopping; what they read goes with the next download.
    """
    served = version.earlier(md, seen)
    if served is None or md.spec.storage.existing_claim:
        return ()
    if _serves_others(served.spec, seen) or _is_shared(md, seen):
        return ()
    used = (spec for spec in (md.spec, served.spec) if weights.is_fetched(spec))
    return tuple(sorted({cache_key(weights.source_text(spec)) for spec in used}))


def _serves_others(spec: ModelDeploymentSpec, seen: Seen) -> bool:
    """Return whether there are pods with other weights than those of the Deployment."""
    return any(pod.meta.label(WEIGHTS_LABEL) != weights.key(spec) for pod in seen.all(drain.SERVERS))


def _is_shared(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    meta = md.meta
    return sharing.is_shared(weights.own_claim_name(meta.name), meta.name, meta.namespace, seen)


def is_harmful(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether the Job may remove weights of an object that has come to use the claim since it was created."""
    return _may_prune(md, seen) and _prunes(md, seen) and _is_shared(md, seen)


def is_under_way(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether a download of other weights may still run, and remove those that are wanted now."""
    wanted = download.pods_of(md, seen)
    others = (pod for pod in seen.all(download.PODS) if pod not in wanted)
    is_own = any(pod.status.get("phase") not in FINISHED for pod in others)
    return is_own or (_shares_claim(md, seen) and _is_pruned(md, seen))


def _is_pruned(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether a pod of another object may still remove weights from the claim that is shared with it."""
    claim, uses = md.spec.storage.existing_claim, seen.every(sharing.pods(md.meta.namespace)).values()
    return any(use.prunes and use.by != md.meta.name and claim in use.claims for use in uses)
