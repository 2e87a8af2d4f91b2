"""The log of a program that goes on when the disk is full: a line that finds no room is lost, and nothing else."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class LogFile:
    """A stream for loggers, readable by us only. Whoever logs does not expect that this can fail, and would end."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, text: str) -> int:
        """Append, without a buffer that would try again later."""
        with suppress(OSError):
            os.write(self._descriptor, text.encode(errors="replace"))
        return len(text)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""
