"""Read from a pod what the scheduler says about it: whether it waits, for what, and whether it was preempted.

The scheduler counts nodes in its messages and repeats them at every try. What is kept here changes only when something
else is missing, so that a status with it is written once. Only the fields that are needed are decoded, because the GPU
queue reads all pods of the cluster.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.plan import RequeueAfter
from modelyard.core.quantities import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from modelyard.core.objects import Stored

_COUNTED: Final = re.compile(r"\d+/\d+ nodes are available: (?P<reasons>.*)", re.DOTALL)
_SUFFIX: Final = re.compile(r"\.\s+(preemption:|no new claims|not found).*", re.DOTALL)
_CLAIM_UNBOUND: Final = re.compile(
    r'pod has unbound immediate PersistentVolumeClaims|persistentvolumeclaim "\S+" not found'
)
_ELSEWHERE: Final = "didn't match pod affinity rules"
_CORDONED: Final = "node(s) were unschedulable"
_SHORT_OF: Final = ("Insufficient ", "Too many pods")
_CLAIM_DELETED: Final = re.compile(r'persistentvolumeclaim "\S+" is being deleted')

BINDING_SECONDS: Final = 60.0
"""How long a new pod may wait for its volume before that is a problem: provisioners of clouds take a while."""

START_SECONDS: Final = 120.0
"""How long a node may prepare the volumes and the network of a pod before that is a problem."""

_MAX_CACHED: Final = 2048
"""How many pods stay decoded: each service that waits for GPUs reads all pods whenever one of them changes."""


class _PodCondition(Struct, frozen=True, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _PodStatus(Struct, frozen=True):
    phase: str = ""
    conditions: tuple[_PodCondition, ...] = ()


class _Amounts(Struct, frozen=True):
    limits: dict[str, str | int] = {}


class _Container(Struct, frozen=True):
    resources: _Amounts = _Amounts()


class _PodSpec(Struct, frozen=True):
    priority: int = 0
    containers: tuple[_Container, ...] = ()


_POD_SPEC: Final = msgspec.json.Decoder(_PodSpec)
_POD_STATUS: Final = msgspec.json.Decoder(_PodStatus)


class Placement(Struct, frozen=True):
    """What the scheduler has decided about a pod."""

    waits: bool = False
    """Whether the scheduler found no node for it."""
    message: str = ""
    """What is missing, without the numbers of nodes."""
    missing_gpu: str = ""
    """The GPU resource that no node has enough of; empty: no GPU is missing."""
    gpus: tuple[tuple[str, int], ...] = ()
    """The GPUs that the pod requests: extended resources and amounts."""
    since: str = ""
    """Since when it waits; empty: it does not."""
    preparing_since: str = ""
    """Since when its node prepares its volumes and its network; empty: it does not (any more), or does not say so."""
    ready: bool = False
    preempted: bool = False
    """Whether it is being removed for a pod with a higher priority."""
    priority: int = 0


def placement_of(pod: Stored, vendors: frozenset[str] | None = None) -> Placement:
    """Return the placement of a pod. One that has finished, or is being deleted, waits for nothing.

    `vendors`: the domains of resources that count as GPUs; None: all extended resources do.
    """
    return _decode_placement(pod.parts.get("spec", b"{}"), pod.parts.get("status", b"{}"), pod.meta.deleting, vendors)


@lru_cache(maxsize=_MAX_CACHED)
def _decode_placement(
    spec_text: bytes, status_text: bytes, deleting: bool, vendors: frozenset[str] | None
) -> Placement:
    spec, status = _POD_SPEC.decode(spec_text), _POD_STATUS.decode(status_text)
    by_type = {condition.type: condition for condition in status.conditions}
    scheduled = by_type.get("PodScheduled", _PodCondition())
    waits = scheduled.status == "False" and not deleting and status.phase in ("", "Pending")
    asked = device_limits(container.resources.limits for container in spec.containers)
    gpus = tuple(device for device in asked if vendors is None or _vendor(device[0]) in vendors)
    startable = by_type.get("PodReadyToStartContainers", _PodCondition())
    is_preparing = startable.status == "False" and not deleting and status.phase == "Pending"
    found = unschedulable_reasons(scheduled.message) if waits else ()
    missing = next((name for name, _ in gpus if f"Insufficient {name}" in found), "")
    if missing:
        # The reasons of nodes without GPUs are dropped: they change with every node that comes and goes.
        found = tuple(reason for reason in found if reason.startswith("Insufficient "))
    return Placement(
        waits=waits,
        message=", ".join(found),
        missing_gpu=missing,
        gpus=gpus,
        since=scheduled.last_transition_time if waits else "",
        preparing_since=startable.last_transition_time if is_preparing else "",
        ready=_is_true(by_type.get("Ready")) and not deleting,
        preempted=_is_preempted(by_type.get("DisruptionTarget")),
        priority=spec.priority,
    )


def waits_for_binding(placement: Placement) -> bool:
    """Return whether a pod waits only for a claim to be bound, as every pod does whose claim is new."""
    return _CLAIM_UNBOUND.fullmatch(placement.message) is not None


def recheck_binding(pods: Iterable[Stored], now: datetime) -> RequeueAfter | None:
    """Return when a pod has waited for its volumes for too long; None: none waits, or all have already."""
    placed = [placement_of(pod) for pod in pods]
    waits = [wait(one, now) for one in placed for wait in (binding_seconds_left, starting_seconds_left)]
    left = [seconds for seconds in waits if seconds]
    return RequeueAfter(min(left), "volumes are being bound or mounted") if left else None


def binding_seconds_left(placement: Placement, now: datetime) -> float:
    """Return for how long a pod may still wait for a claim to be bound; 0: it does not, or has for too long."""
    if not waits_for_binding(placement) or not placement.since:
        return 0.0
    return max(0.0, BINDING_SECONDS - (now - datetime.fromisoformat(placement.since)).total_seconds())


def starting_seconds_left(placement: Placement, now: datetime) -> float:
    """Return for how long a node may still prepare a pod; 0: it does not, or has for too long."""
    if not placement.preparing_since:
        return 0.0
    return max(0.0, START_SECONDS - (now - datetime.fromisoformat(placement.preparing_since)).total_seconds())


def waits_for_claim_deletion(placement: Placement) -> bool:
    """Return whether a claim of a pod is being deleted, which lasts until no other pod uses it."""
    return _CLAIM_DELETED.search(placement.message) is not None


def waits_for_room_beside(placement: Placement) -> bool:
    """Return whether nodes are ruled out because pods that this one has to run beside are on another."""
    return _ELSEWHERE in placement.message


def waits_for_uncordon(placement: Placement) -> bool:
    """Return whether nodes are cordoned that a pod may use, and no other one is only too full."""
    reasons = placement.message.split(", ")
    return _CORDONED in reasons and not any(reason.startswith(_SHORT_OF) for reason in reasons)


def unschedulable_reasons(message: str) -> tuple[str, ...]:
    """Return the sorted reasons in a message such as `0/3 nodes are available: 3 Insufficient cpu. preemption: ...`.

    A message of another form is one reason, as it stands.
    """
    counted = _COUNTED.fullmatch(message)
    if counted is None:
        return (message,)
    parts = re.split(r", (?=\d+ )", _SUFFIX.sub("", counted["reasons"]).rstrip(". "))
    return tuple(sorted({re.sub(r"^\d+ ", "", part) for part in parts}))


def device_limits(limits: Iterable[Mapping[str, str | int]]) -> tuple[tuple[str, int], ...]:
    """Return the extended resources that containers request, with their amounts. Those have a domain in their name."""
    # Amounts are quantities: webhooks may request thousands, and the API server writes 8000 as 8k.
    asked = ((name, int(quantity(amount))) for one in limits for name, amount in one.items() if "/" in name)
    return tuple(sorted((name, amount) for name, amount in asked if amount))


def gpu_vendors(deployment: Stored | None) -> frozenset[str]:
    """Return the domains of the extended resources that the template of a Deployment requests.

    Webhooks add other devices to pods, such as network cards, and more of the same vendor, such as GPU memory.
    """
    template = deployment.spec.get("template", {}) if deployment else {}
    containers = template.get("spec", {}).get("containers", ())
    asked = device_limits(one.get("resources", {}).get("limits", {}) for one in containers)
    return frozenset(_vendor(name) for name, _ in asked)


def _vendor(resource: str) -> str:
    return resource.partition("/")[0]


def _is_true(condition: _PodCondition | None) -> bool:
    return condition is not None and condition.status == "True"


def _is_preempted(condition: _PodCondition | None) -> bool:
    return condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"
