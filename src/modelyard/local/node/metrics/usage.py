"""CPU and memory in use, worked out from two readings. Pure; `sampler` takes the readings, `metrics_server` serves."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from msgspec import Struct

# What a process does in its first moments says nothing of what it uses.
_LEAST_WINDOW: Final = 0.5


class Reading(Struct, frozen=True):
    """What a container, or the whole machine, had used at one moment."""

    at: float
    """Seconds since boot."""
    cpu: float
    """CPU time up to then, in seconds."""
    memory: int = 0


class RunningContainer(Struct, frozen=True):
    """One run of a container: a restart is another, whose CPU time begins at 0."""

    pod: str
    """The UID of its pod."""
    name: str
    started: float
    """Seconds since boot."""


class Snapshot(Struct, frozen=True):
    """Readings of the machine and of all running containers at the same moment."""

    machine: Reading
    containers: dict[RunningContainer, Reading]


class Usage(Struct, frozen=True):
    """What was in use: CPUs on average over a window of some seconds, and bytes of memory at its end."""

    cpu: float
    memory: int
    window: float


class Measured(Struct, frozen=True):
    """What the machine and its pods use."""

    machine: Usage | None = None
    """None: this system does not tell."""
    pods: dict[str, dict[str, Usage]] = {}
    """By UID of the pod and name of the container. A pod that cannot be measured is missing."""


def measured(before: Snapshot, now: Snapshot) -> Measured:
    """Return the usage between two snapshots. A container that has started since is measured from its start."""
    pods: defaultdict[str, dict[str, Usage]] = defaultdict(dict)
    for container, reading in now.containers.items():
        earlier = before.containers.get(container) or Reading(container.started, 0.0)
        if used := _usage(earlier, reading):
            pods[container.pod][container.name] = used
    return Measured(_usage(before.machine, now.machine), dict(pods))


def _usage(before: Reading, now: Reading) -> Usage | None:
    window = now.at - before.at
    if window < _LEAST_WINDOW:
        return None
    # The time of a child that its parent does not wait for is lost when it ends, so the sum may fall.
    return Usage(max(now.cpu - before.cpu, 0.0) / window, now.memory, window)
