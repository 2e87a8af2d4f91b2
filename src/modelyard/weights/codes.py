"""How a fetch can end: one code for each thing that somebody has to do about it.

The numbers are an interface: the operator reads them from a container's status. None is 1 or 2, which belong to a
crash and to a wrong command line.
"""

from __future__ import annotations

from enum import IntEnum

from modelyard.core.errors import ModelyardError


class Code(IntEnum):
    """The exit codes of `modelyard fetch`."""

    OK = 0
    BAD_SOURCE = 10
    AUTH = 11
    NOT_FOUND = 12
    CHECKSUM = 13
    NO_SPACE = 14
    NOT_WRITABLE = 15
    REFUSED = 16
    TRANSIENT = 17
    STOPPED = 143  # what a shell shows for a program that ended on SIGTERM

    @property
    def word(self) -> str:
        """How the code is called in JSON."""
        return self.name.lower().replace("_", "-")


class FetchFailed(ModelyardError):
    """The weights are not there, and why. The text may be shown to anybody: it never holds a secret."""

    def __init__(self, code: Code, message: str, remedy: str) -> None:
        super().__init__(f"{message}; {remedy}")
        self.code, self.message, self.remedy = code, message, remedy


class Transient(FetchFailed):
    """It may work in a moment; upstream may have said when."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(Code.TRANSIENT, message, "it is tried again; check the network if this stays")
        self.after = after


class Changed(Transient):
    """Upstream became something else while it was being fetched."""
