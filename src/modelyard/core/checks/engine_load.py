"""The check of an inference server, answered by `net/engine_load.py`: whether it has requests in progress."""

from __future__ import annotations

from typing import Final

from modelyard.core.checks import Check
from modelyard.core.checks.service_address import ServiceAddress

BUSY: Final = "busy"
"""The name of the answer's value: whether requests run or wait."""


class EngineLoad(Check, frozen=True):
    """Read from the metrics of one pod whether requests run or wait there."""

    pod: ServiceAddress
    """The pod, addressed by its own IP."""
    uid: str
    """The UID of the pod: an answer must not speak for a later pod with the same address."""
    gauges: tuple[str, ...]
    """The Prometheus gauges that are all 0 in an idle server."""
    every: float = 2.0
