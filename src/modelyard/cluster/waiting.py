"""Who waits for GPUs, and who holds them, worked out from pods. Pure; `modelyard queue` shows it.

The order is that of the operator and of the scheduler: priority first, then the age of the service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core import names
from modelyard.core.quantities import quantity
from modelyard.kinds import ALL
from modelyard.kinds.inferenceservice.gpu_queue import rank_of
from modelyard.kinds.shared.scheduling import placement_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from modelyard.core.objects import Stored

_KINDS: Final = {kind.name: kind.resource.kind for kind in ALL}
_ENDED: Final = ("Succeeded", "Failed")


class Holder(Struct, frozen=True):
    """An object whose pods have GPUs of one resource."""

    kind: str
    namespace: str
    name: str
    gpus: int

    @property
    def text(self) -> str:
        """What the table says."""
        return f"{self.kind} {self.namespace}/{self.name}: {self.gpus}"


class Waiting(Struct, frozen=True, rename="camel"):
    """An object of which no pod is ready and a pod waits for GPUs."""

    position: int
    kind: str
    namespace: str
    name: str
    resource: str
    gpus: int
    """How many each of its pods needs."""
    priority: int
    since: str
    held_by: tuple[Holder, ...] = ()


class Supply(Struct, frozen=True):
    """The GPUs of one resource, on all nodes."""

    resource: str
    capacity: int
    held: int


class Queue(Struct, frozen=True):
    """What `modelyard queue -o json` prints."""

    waiting: tuple[Waiting, ...]
    supplies: tuple[Supply, ...] = ()


def gpu_queue(pods: Iterable[Stored], nodes: Iterable[Stored]) -> Queue:
    """Return who waits for GPUs, in their order, and for whom."""
    there = [pod for pod in pods if pod.status.get("phase") not in _ENDED and not pod.meta.deleting]
    holders = _holders(there)
    serving = {_owner(pod) for pod in there if placement_of(pod).ready}
    first: dict[tuple[str, str, str], Stored] = {}
    stuck = [pod for pod in there if placement_of(pod).missing_gpu and _owner(pod) not in serving]
    for pod in sorted(stuck, key=lambda pod: rank_of(pod, placement_of(pod))):
        first.setdefault(_owner(pod), pod)
    waiting = [_waiting(position, pod, holders) for position, pod in enumerate(first.values(), start=1)]
    return Queue(tuple(waiting), tuple(_supplies(nodes, holders)))


def _owner(pod: Stored) -> tuple[str, str, str]:
    kind = pod.meta.label(names.KIND_LABEL)
    return _KINDS.get(kind, kind), pod.meta.namespace, pod.meta.label(names.INSTANCE_LABEL)


def _holders(pods: Iterable[Stored]) -> dict[str, dict[tuple[str, str, str], int]]:
    """Return how many GPUs of each resource each object has. A pod on a node has them, ready or not."""
    found: dict[str, dict[tuple[str, str, str], int]] = {}
    for pod in pods:
        placement = placement_of(pod)
        if placement.waits or not (pod.spec.get("nodeName") or placement.ready):
            continue
        for resource, amount in placement.gpus:
            by_owner = found.setdefault(resource, {})
            by_owner[_owner(pod)] = by_owner.get(_owner(pod), 0) + amount
    return found


def _waiting(position: int, pod: Stored, holders: Mapping[str, Mapping[tuple[str, str, str], int]]) -> Waiting:
    placement, (kind, namespace, name) = placement_of(pod), _owner(pod)
    resource = placement.missing_gpu
    held = sorted(holders.get(resource, {}).items(), key=lambda entry: (-entry[1], entry[0]))
    return Waiting(
        position=position,
        kind=kind,
        namespace=namespace,
        name=name,
        resource=resource,
        gpus=dict(placement.gpus)[resource],
        priority=placement.priority,
        since=placement.since,
        held_by=tuple(Holder(*owner, gpus) for owner, gpus in held),
    )


def _supplies(nodes: Iterable[Stored], holders: Mapping[str, Mapping[tuple[str, str, str], int]]) -> Iterable[Supply]:
    capacity: dict[str, int] = {}
    for node in nodes:
        for resource, amount in (node.status.get("capacity") or {}).items():
            if "/" in resource:
                capacity[resource] = capacity.get(resource, 0) + int(quantity(amount))
    for resource in sorted(capacity.keys() | holders.keys()):
        yield Supply(resource, capacity.get(resource, 0), sum(holders.get(resource, {}).values()))
