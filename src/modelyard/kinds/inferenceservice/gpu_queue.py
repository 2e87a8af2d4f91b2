"""The position of an InferenceService among all that wait for GPUs.

Worked out from pods, not from the status of other services: each would be one step behind the others, and every move
of the queue a cascade of writes. The order is that of the scheduler, priority first, then the age of the service. A
change wakes only the services behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from modelyard.core import names
from modelyard.core.resources import DEPLOYMENT, POD, Key
from modelyard.core.selectors import Selector
from modelyard.kinds.contract import Every, Owned
from modelyard.kinds.inferenceservice.api import CREATED
from modelyard.kinds.inferenceservice.naming import KIND
from modelyard.kinds.shared import scheduling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
    from modelyard.kinds.shared.scheduling import Placement

WITHIN_SECONDS: Final = 5.0
"""How many seconds a change of the queue may wait, so that many changes are one write."""


class Rank(NamedTuple):
    """The sort key of the queue."""

    negated_priority: int
    """Higher priorities sort first."""
    created: str
    service: Key


class PodsAhead(Struct, frozen=True):
    """The facet of a pod that the position of a service depends on: only pods ahead of it matter."""

    rank: Rank

    def __call__(self, pod: Stored) -> tuple[Key, bool] | None:
        """Return the service of the pod and whether the pod is ready; None: it is not ahead."""
        placement = scheduling.placement_of(pod)
        if not placement.missing_gpu and not (placement.ready and placement.gpus):
            return None
        rank = rank_of(pod, placement)
        return (rank.service, placement.ready) if rank < self.rank else None


def reads(service: Object[InferenceServiceSpec], seen: Seen) -> Iterator[Every[tuple[Key, bool]]]:
    """Name the pods ahead of this service in the queue; nothing, if it does not wait."""
    vendors = scheduling.gpu_vendors(seen.one(Owned(DEPLOYMENT)))
    own = [(pod, scheduling.placement_of(pod, vendors)) for pod in seen.all(Owned(POD))]
    if any(placement.ready for _, placement in own):
        return
    ranks = [rank_of(pod, placement) for pod, placement in own if placement.missing_gpu]
    if ranks:
        first = min(ranks)._replace(service=Key(service.meta.namespace, names.short(service.meta.name)))
        yield Every(POD, PodsAhead(first), selector=Selector(((names.KIND_LABEL, KIND),)), within=WITHIN_SECONDS)


def position(service: Object[InferenceServiceSpec], seen: Seen) -> int:
    """Return the position of a service, from 1; 0: it does not wait, or one of its pods is ready."""
    ahead = next(reads(service, seen), None)
    if ahead is None:
        return 0
    found = seen.every(ahead).values()
    serving = {key for key, ready in found if ready}
    return 1 + len({key for key, _ in found} - serving)


def rank_of(pod: Stored, placement: Placement) -> Rank:
    """Return the place of a pod in the order of the queue."""
    meta = pod.meta
    created = meta.annotation(CREATED) or meta.creation_timestamp or ""
    return Rank(-placement.priority, created, Key(meta.namespace, meta.label(names.INSTANCE_LABEL)))
