"""One row per object for the table that users see, computed from its status. Pure.

The view of `modelyard up` and the query of `modelyard status` make rows, the screen shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.conditions import Truth, stored_condition
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.kinds.inferenceservice.api import RESOURCE as INFERENCE_SERVICE
from modelyard.kinds.modeldeployment.api import RESOURCE as MODEL_DEPLOYMENT
from modelyard.local.node.proxy.service_dns import resolve_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.objects import Json, Stored
    from modelyard.local.node.proxy.service_dns import ServiceAddresses

_NAMESPACE: Final = "default"
_NEW: Final = "Pending"
_RESTS: Final = "Stopped"
_GONE: Final = "Decommissioned"
# A cluster may get a GPU or a Mac later, so the operator says that such a service is on its way. One machine does not,
# or only if its user adds a host.
_NOT_ON_THIS_MACHINE: Final = frozenset(
    {Reason.WAITING_FOR_GPU, Reason.INSUFFICIENT_GPU, Reason.WAITING_FOR_METAL_AGENT}
)
# An InferenceHost of another network than --host-networks stays out until the user starts the machine anew.
_NEEDS_HELP: Final = PROBLEMS | _NOT_ON_THIS_MACHINE | {Reason.SCALED_TO_ZERO, Reason.ADDRESS_NOT_ALLOWED}

_WAITS_FOR_ANOTHER: Final = frozenset({Reason.WAITING_FOR_MODEL, Reason.REFERENCE_NOT_READY})


class Row(Struct, frozen=True, rename="camel"):
    """One object as the table shows it, and as `modelyard status -o json` prints it."""

    kind: str
    name: str
    phase: str
    ready: str
    reason: str
    url: str = ""
    note: str = ""
    """The progress of a download, or the message of the condition Ready; empty: it is ready."""
    is_current: bool = False
    """Whether the status is that of the newest generation of the object."""
    is_ready: bool = False
    is_settled: bool = False
    """Whether it is ready, or will not get ready by itself."""

    @property
    def is_as_wanted(self) -> bool:
        """Whether it is ready, or stopped because its spec says so."""
        rests = self.phase in (_RESTS, _GONE) or self.reason == Reason.SCALED_TO_ZERO
        return self.is_ready or (self.is_settled and rests)


def rows(items: Iterable[Stored], service_addresses: ServiceAddresses) -> list[Row]:
    """Return the rows of these objects: Models first, because the others need them.

    What another object has made is part of that one, as the InferenceModel of an InferenceService.
    """
    made_by_users = (item for item in items if item.meta.controller is None)
    ordered = sorted(made_by_users, key=lambda item: (item.resource.kind != "Model", item.resource.kind, item.meta.key))
    shown = [row(item, service_addresses) for item in ordered]
    if any(not each.is_settled and each.reason not in _WAITS_FOR_ANOTHER for each in shown):
        return shown
    # Nothing is on its way any more that could end the wait.
    return [
        msgspec.structs.replace(each, is_settled=each.is_current) if each.reason in _WAITS_FOR_ANOTHER else each
        for each in shown
    ]


def row(item: Stored, service_addresses: ServiceAddresses) -> Row:
    """Return the row of one object, with the loopback address of its Service."""
    status = item.status
    ready, progressing = stored_condition(status, "Ready"), stored_condition(status, "Progressing")
    is_ready = ready.get("status") == Truth.TRUE
    is_current = status.get("observedGeneration") == item.meta.generation
    is_degraded = stored_condition(status, "Degraded").get("status") == Truth.TRUE
    is_stuck = (
        progressing.get("status") == Truth.FALSE
        or is_degraded
        or status.get("phase") in {"Failed", _RESTS, _GONE}
        # An MCP has none of these: its condition Ready alone tells.
        or ready.get("reason") in _NEEDS_HELP
    )
    return Row(
        kind=item.resource.kind,
        name=item.meta.name if item.meta.namespace == _NAMESPACE else str(item.meta.key),
        phase=status.get("phase") or _phase(ready),
        ready=_count(item, status) or ("yes" if is_ready else "no"),
        reason=ready.get("reason", ""),
        url=resolve_names(status.get("endpoint") or status.get("url") or "", service_addresses),
        note="" if is_ready else (_download(progressing) or ready.get("message", "")),
        is_current=is_current,
        is_ready=is_ready and is_current,
        is_settled=is_current and (is_ready or is_stuck),
    )


def _phase(ready: Json) -> str:
    """Return the phase of an object whose kind has none, such as an MCP."""
    if ready.get("reason") == Reason.SCALED_TO_ZERO:
        return _RESTS
    return "Ready" if ready.get("status") == Truth.TRUE else _NEW


def _count(item: Stored, status: Json) -> str:
    if item.resource == MODEL_DEPLOYMENT:
        return f"{status.get('readyPods', 0)}/{status.get('replicas') or item.spec.get('replicas', 1)}"
    if item.resource != INFERENCE_SERVICE:
        return ""
    return f"{status.get('readyReplicas', 0)}/{status.get('desiredReplicas', item.spec.get('replicas', 1))}"


def _download(progressing: Json) -> str:
    return str(progressing.get("message", "")) if progressing.get("reason") == "Downloading" else ""
