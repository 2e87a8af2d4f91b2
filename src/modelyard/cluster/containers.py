"""The containers of pods, and those that failed. Pure; `explanation` and `next_steps` call it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core.objects import Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.core.objects import Json


class Failed(Struct, frozen=True):
    """A container that has ended with an error and is not ready."""

    pod: Stored
    name: str
    was_started_again: bool
    """Whether the run that failed is the previous one by now, and not the last."""
    has_previous: bool
    """Whether there is a log of a previous run, which a further start does not replace by an empty one."""


def statuses(pod: Stored) -> list[Json]:
    """Return what is told of all containers of a pod, in the order in which they start."""
    status = pod.status
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def failed(pods: Iterable[Stored]) -> Iterator[Failed]:
    """Yield each container that has ended with an error and is not ready."""
    for pod in pods:
        for status in statuses(pod):
            state = status.get("state", {})
            ended = state.get("terminated") or status.get("lastState", {}).get("terminated") or {}
            if ended.get("exitCode") and not status.get("ready"):
                again = "terminated" not in state
                yield Failed(pod, str(status.get("name", "")), again, again or status.get("restartCount", 0) > 0)
