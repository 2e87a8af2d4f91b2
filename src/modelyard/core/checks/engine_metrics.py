"""The check of an inference server, answered by `net/engine_metrics.py`: what its metrics page says."""

from __future__ import annotations

from typing import Final

from modelyard.core.checks import Check
from modelyard.core.checks.service_address import ServiceAddress

AT: Final = "at"
"""The name of the answer's value: when the page was read, in monotonic seconds."""
SAMPLES: Final = "samples"
"""The name of the answer's value: the values of each sample that was asked for, by name."""


class EngineMetrics(Check, frozen=True):
    """Read some samples of the metrics of one pod."""

    pod: ServiceAddress
    """The pod, addressed by its own IP."""
    uid: str
    """The UID of the pod: counters of a later pod with the same address begin anew."""
    engine: str
    """The name of the engine that runs there."""
    names: tuple[str, ...]
    """The samples that are wanted."""
    every: float = 15.0
