"""The exit codes of `modelyard fetch`: one for each remedy.

The numbers are an interface: the operator reads them from the container status of pods, and an old pod may meet a new
operator. None is 1 or 2, which belong to a crash and to a wrong command line.
"""

from __future__ import annotations

from enum import IntEnum


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
        """The name of the code in JSON, such as `not-found`."""
        return self.name.lower().replace("_", "-")
