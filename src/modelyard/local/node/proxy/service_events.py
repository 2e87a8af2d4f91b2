"""Events of type Warning about a Service whose port another program uses, as `kubectl describe service` shows them, and
the condition of one that can listen nowhere, which the operator reads.

Pure; `service_proxy` sends them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core import events
from modelyard.core.events import Reporter
from modelyard.core.names import REACHABLE

if TYPE_CHECKING:
    from datetime import datetime

    from modelyard.core.objects import Json, Stored
    from modelyard.local.node.proxy.addresses import HostPort


class ServiceWarning(Struct, frozen=True):
    """The reason and note of one Event."""

    reason: str
    note: str


def moved(wanted: HostPort, address: HostPort) -> ServiceWarning:
    """Return the warning about a Service that listens on another port than its own."""
    note = (
        f"a program of this machine uses port {wanted.port} on all addresses, or only root may use it; the Service is "
        f"reached at {address}. End that program, or change the port of the Service"
    )
    return ServiceWarning("PortInUse", note)


def changed_conditions(service: Stored, why: str, now: str) -> list[Json] | None:
    """Return the conditions that say why a Service cannot be reached; None: it says so already.

    `why` is empty for one that can be reached, which has no such condition.
    """
    # Most Services never had it, and their status need not be decoded.
    if not why and REACHABLE.encode() not in service.parts.get("status", b""):
        return None
    before = service.status.get("conditions", [])
    if any(entry["type"] == REACHABLE and entry["message"] == why for entry in before):
        return None
    others = [entry for entry in before if entry["type"] != REACHABLE]
    said = {"type": REACHABLE, "status": "False", "reason": "AddressInUse", "message": why, "lastTransitionTime": now}
    return [*others, said] if why else others


def service_event(service: Stored, warning: ServiceWarning, moment: datetime) -> Json:
    """Return the Event object for a warning about a Service."""
    reporter = Reporter("modelyard.dev/node", "service-proxy", "Listen")
    return events.event(service, reporter, warning.reason, warning.note, moment, warning=True)
