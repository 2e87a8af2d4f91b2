"""What a container is doing, as values. Everything that is reported or remembered about it is made of these."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MESSAGE_BYTES: Final = 4096
"""How much of a termination message is kept, as on any node."""


class Waiting(Struct, frozen=True, tag=True):
    """It does not run yet, or not at the moment."""

    reason: str
    message: str = ""


class Running(Struct, frozen=True, tag=True):
    """It runs."""

    since: str


class Terminated(Struct, frozen=True, tag="Ended"):
    """It has ended. The tag is the word that the records of every state folder hold."""

    code: int
    reason: str
    started: str
    finished: str
    message: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether it did what it was there for."""
        return self.code == 0


State = Waiting | Running | Terminated

CREATING: Final = Waiting("ContainerCreating")
INITIALIZING: Final = Waiting("PodInitializing")


class ContainerStatus(Struct, frozen=True):
    """One container, as its pod's status shows it."""

    name: str
    image: str
    state: State = CREATING
    last: Terminated | None = None
    """How the run before this one ended."""
    restarts: int = 0
    started: bool = False
    """Whether it has passed its startup probe."""
    ready: bool = False


def exit_code(returncode: int) -> int:
    """Return what a shell would show: 128 and the number of the signal for a process that was killed."""
    return 128 - returncode if returncode < 0 else returncode
