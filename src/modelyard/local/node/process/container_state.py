"""The states of a container as values: ContainerState and ContainerStatus of the Kubernetes API.

Workers make them, `pod_status` writes them into the status of the pod, and the record on disk holds them.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MESSAGE_BYTES: Final = 4096
"""The longest termination message that is kept, as on any node."""


class Waiting(Struct, frozen=True, tag=True):
    """The container does not run yet, or waits for its next run."""

    reason: str
    message: str = ""


class Running(Struct, frozen=True, tag=True):
    """The container runs."""

    since: str


class Terminated(Struct, frozen=True, tag="Ended"):
    """A run of the container has ended. The tag is the word that the records of every state folder hold."""

    code: int
    reason: str
    started: str
    finished: str
    message: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.code == 0


State = Waiting | Running | Terminated

CREATING: Final = Waiting("ContainerCreating")
INITIALIZING: Final = Waiting("PodInitializing")


class ContainerStatus(Struct, frozen=True):
    """One container as the status of its pod shows it (ContainerStatus)."""

    name: str
    image: str
    state: State = CREATING
    last: Terminated | None = None
    """How the run before this one ended; None: there was none."""
    restarts: int = 0
    started: bool = False
    """Whether this run has passed the startup probe."""
    ready: bool = False
    unready_because: str = ""
    """How its startup or readiness probe fails; empty: it is ready, or has had little time."""


def exit_code(returncode: int) -> int:
    """Return the exit code as shells and Kubernetes count it: 128 plus the signal for a process that was killed."""
    return 128 - returncode if returncode < 0 else returncode
