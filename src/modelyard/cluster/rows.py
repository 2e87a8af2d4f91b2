"""One row per object, worked out from its status: phase, ready, reason, URL. Pure; `get` and the page show them.

A row never says more than the status does: one of an older generation, or of an object that the operator has not seen,
is not ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core.conditions import Truth, stored_condition
from modelyard.core.reasons import PROBLEMS, Reason

if TYPE_CHECKING:
    from modelyard.core.objects import Json, Stored

NOT_OBSERVED: Final = "NotObserved"
"""What `get` says in place of a reason while no operator has looked at the newest version of an object."""

RESTS: Final = frozenset(
    {Reason.SCALED_TO_ZERO, Reason.MANUALLY_SCALED_TO_ZERO, Reason.DECOMMISSIONED, Reason.CORDONED}
)
"""Why an object is not ready because its spec says so."""
NEEDS_HELP: Final = PROBLEMS | {Reason.ADDRESS_NOT_ALLOWED}
"""Why an object does not get ready by itself."""

_NOT_OBSERVED_MESSAGE: Final = (
    "no operator has looked at this version of the object yet; if this lasts, run `modelyard doctor`"
)
_COUNTS: Final = (
    ("readyReplicas", ("desiredReplicas", "replicas")),
    ("readyPods", ("replicas",)),
)
"""Where kinds count their pods or hosts: those that are ready, and how many there should be."""
_PLACED: Final = frozenset({"InferenceModel"})
"""The kinds whose `status.replicas` counts what has a place already, and not what there should be."""


class Row(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One object as `get` shows it, and as `get -o json` prints it."""

    kind: str
    api_version: str
    namespace: str
    name: str
    phase: str
    ready: bool
    reason: str
    url: str = ""
    ready_replicas: int | None = None
    """None: the kind does not count."""
    replicas: int | None = None
    message: str = ""
    """What the Ready condition says."""
    created: str = ""

    @property
    def count(self) -> str:
        """The column READY: ready replicas of those wanted, or yes or no."""
        if self.ready_replicas is None:
            return "yes" if self.ready else "no"
        return f"{self.ready_replicas}/{self.replicas or 0}"


def row(item: Stored) -> Row:
    """Return the row of one object."""
    status, ready = item.status, ready_condition(item)
    ready_replicas, replicas = _counts(item, status)
    return Row(
        kind=item.resource.kind,
        api_version=item.resource.api_version,
        namespace=item.meta.namespace,
        name=item.meta.name,
        phase=_phase(item, status, ready),
        ready=ready["status"] == Truth.TRUE,
        reason=str(ready.get("reason", "")),
        url=str(status.get("url") or status.get("endpoint") or ""),
        ready_replicas=ready_replicas,
        replicas=replicas,
        message=str(ready.get("message", "")),
        created=item.meta.creation_timestamp or "",
    )


def ready_condition(item: Stored) -> Json:
    """Return the Ready condition of an object, or one that says why there is none that counts: paused, or not seen."""
    status = item.status
    if paused := stored_condition(status, "Paused"):
        return {**paused, "type": "Ready", "status": Truth.UNKNOWN}
    found = stored_condition(status, "Ready")
    if not found or status.get("observedGeneration") != item.meta.generation:
        return {"status": Truth.UNKNOWN, "reason": NOT_OBSERVED, "message": _NOT_OBSERVED_MESSAGE}
    return found


def is_paused(item: Stored) -> bool:
    """Return whether the operator leaves an object alone, so that its other conditions may be out of date."""
    return bool(stored_condition(item.status, "Paused"))


def _phase(item: Stored, status: Json, ready: Json) -> str:
    if item.meta.deleting:
        return "Deleting"
    if is_paused(item):
        return "Paused"
    if phase := status.get("phase"):
        return str(phase)
    # MCP and others have no phase of their own.
    if ready.get("reason") == Reason.SCALED_TO_ZERO:
        return "Stopped"
    if ready["status"] == Truth.TRUE:
        return "Ready"
    return "Failed" if ready.get("reason") in NEEDS_HELP else "Pending"


def _counts(item: Stored, status: Json) -> tuple[int | None, int | None]:
    """Return how many replicas are ready, of how many; None twice: the kind does not count them."""
    tracks = [track for track in status.get("tracks") or () if isinstance(track, dict)]
    if tracks:
        return _sum(tracks, "readyReplicas"), _sum(tracks, "replicas")
    for done, wanted in _COUNTS:
        if done in status:
            told = () if item.resource.kind in _PLACED else (status[name] for name in wanted if name in status)
            return _number(status[done]), _number(next(iter(told), item.spec.get("replicas", 1)))
    return None, None


def _sum(tracks: list[Json], field: str) -> int:
    return sum(_number(track.get(field, 0)) for track in tracks)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
