"""The drain of a ModelDeployment that is deprecated or deleted: no new requests, then no pods, then no children.

When it began, and how it ended, is memory: both must survive a restart of the operator. Everything else follows from
what is seen. Taken back before the pods are stopped, nothing has happened to them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core.checks.engine_load import BUSY, EngineLoad
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.plan import RequeueAfter
from modelyard.core.resources import JOB, POD, SERVICE, VOLUME_CLAIM
from modelyard.core.times import seconds_since, timestamp
from modelyard.engines import ENGINES
from modelyard.kinds.contract import Asked, Named, Owned
from modelyard.kinds.modeldeployment import naming, version, weights
from modelyard.kinds.modeldeployment.server import OWN
from modelyard.kinds.shared.pods import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Ref
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.modeldeployment.api import DrainSettings, ModelDeploymentSpec

SERVERS: Final = Owned(POD, naming.SERVER)


class DrainResult(StrEnum):
    """How a drain ended."""

    IDLE = "Idle"
    TIMED_OUT = "TimedOut"


class Memory(Struct, frozen=True, rename="camel"):
    """What is remembered of a drain: fields of the status."""

    drain_started_at: str | None = None
    drain_result: DrainResult | None = None


class Step(StrEnum):
    """The step of a drain."""

    WAITING = "requests are in progress"
    STOPPING = "the pods stop"
    REMOVING = "the children are deleted"
    DONE = "nothing is left"


def remember(md: Object[ModelDeploymentSpec], seen: Seen) -> Memory:
    """Return when the drain began and how it ended; empty: there is none to be made."""
    if not md.spec.deprecated and not md.meta.deleting:
        return Memory()
    before: Memory = md.memory
    started = before.drain_started_at or timestamp(seen.now)
    return Memory(started, before.drain_result or _result(md, seen, seconds_since(started, seen.now)))


def step(seen: Seen, memory: Memory) -> Step | None:
    """Return the step of the drain; None: there is none."""
    if memory.drain_started_at is None:
        return None
    if seen.one(OWN) is None:
        return Step.REMOVING if seen.all(Owned(SERVICE)) or seen.all(Owned(JOB)) else Step.DONE
    if memory.drain_result is None:
        return Step.WAITING
    return Step.STOPPING if is_scaled_up(seen) or _unfinished(seen) else Step.REMOVING


def is_scaled_up(seen: Seen) -> bool:
    """Return whether the Deployment wants pods."""
    found = seen.one(OWN)
    return found is not None and int(found.spec.get("replicas", 1)) > 0


def _unfinished(seen: Seen) -> list[Stored]:
    """Return the pods that still run or stop. Pods that were evicted stay for ever, and run nothing."""
    return [pod for pod in seen.all(SERVERS) if pod.status.get("phase") not in FINISHED]


def checks(md: Object[ModelDeploymentSpec], seen: Seen) -> Iterator[Asked]:
    """Yield the check of every pod that may have requests, once clients have had time to notice."""
    before: Memory = md.memory
    if before.drain_started_at is None or before.drain_result is not None:
        return
    if seconds_since(before.drain_started_at, seen.now) >= md.spec.drain.delay_seconds:
        served = version.earlier(md, seen) or md
        yield from (_check(served.spec, pod) for pod in _running(seen))


def _check(spec: ModelDeploymentSpec, pod: Stored) -> Asked:
    address = ServiceAddress(pod.meta.namespace, pod.meta.name, _port(spec, pod), str(pod.status.get("podIP", "")))
    return Asked(EngineLoad(address, pod.meta.uid, ENGINES[spec.engine].gauges))


def _port(spec: ModelDeploymentSpec, pod: Stored) -> int:
    """Return the port of the server of a pod. While pods are replaced, those of two versions may differ.

    The spec is that of the version to serve, for a pod that names no port.
    """
    ports = (port for container in pod.spec.get("containers", ()) for port in container.get("ports", ()))
    return next((port["containerPort"] for port in ports if port.get("name") == "http"), spec.port)


def _running(seen: Seen) -> list[Stored]:
    """Return the pods whose server runs. One that is being deleted ends by itself, and no other can have requests."""
    return [pod for pod in seen.all(SERVERS) if not pod.meta.deleting and _runs(pod)]


def _runs(pod: Stored) -> bool:
    return any("running" in one.get("state", {}) for one in pod.status.get("containerStatuses", ()))


def _result(md: Object[ModelDeploymentSpec], seen: Seen, elapsed: float) -> DrainResult | None:
    """Return how the drain ends now; None: it goes on. What cannot be read counts as busy."""
    pods = _running(seen)
    if not pods:
        return DrainResult.IDLE
    if elapsed >= _end(md.spec.drain):
        return DrainResult.TIMED_OUT
    answers = [seen.answer(read) for read in checks(md, seen)]
    idle = [answer for answer in answers if answer and answer.ok and answer.value.get(BUSY) is False]
    return DrainResult.IDLE if len(idle) == len(pods) else None


def _end(limits: DrainSettings) -> int:
    """Return after how many seconds a drain ends in any case: the servers are asked for all of the timeout."""
    return limits.delay_seconds + limits.timeout_seconds


def is_unreadable(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether the metrics of a pod cannot be read."""
    answers = (seen.answer(read) for read in checks(md, seen))
    return any(answer is not None and not answer.ok for answer in answers)


def requeue_after(md: Object[ModelDeploymentSpec], seen: Seen, memory: Memory) -> RequeueAfter | None:
    """Return when the drain goes on without news; None: it does not wait for a time."""
    if memory.drain_started_at is None or memory.drain_result is not None:
        return None
    elapsed, limits = seconds_since(memory.drain_started_at, seen.now), md.spec.drain
    if md.memory.drain_started_at is None:
        return RequeueAfter(float(limits.delay_seconds), "clients get time to notice that the model is gone")
    left = [limit - elapsed for limit in (limits.delay_seconds, _end(limits)) if limit > elapsed]
    return RequeueAfter(min(left, default=0.0), "requests in progress get time to end")


def own_claim(md: Object[ModelDeploymentSpec], seen: Seen) -> tuple[Ref, ...]:
    """Return the claim to delete at the end; empty: it is to be kept, or of the user."""
    name = weights.own_claim_name(md.meta.name)
    claim = seen.one(Named(VOLUME_CLAIM, name)) if weights.mounted_claim(md) == name else None
    if claim is None or claim.meta.deleting or claim.meta.controller is None:
        return ()
    return (claim.ref,) if claim.meta.controller.uid == md.meta.uid else ()
