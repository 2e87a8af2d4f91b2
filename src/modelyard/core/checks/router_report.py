"""The check of the routers of a Service, answered by `net/router_report.py`."""

from __future__ import annotations

from modelyard.core.checks import Check
from modelyard.core.checks.service_address import ServiceAddress


class RouterReport(Check, frozen=True):
    """Ask each router behind a Service which weights are in force there, and what it has counted.

    It carries neither weights nor pods. With them every change would be a new check, without an answer for a moment.
    """

    service: ServiceAddress
    routers: int
    """How many there should be. Any of them may answer a request, so it is repeated until so many have."""
    tracks: tuple[str, ...]
    """Whose figures are wanted. A router counts requests to its own parts, too, and those of this check among them."""
    every: float = 5.0
