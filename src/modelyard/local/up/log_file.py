"""The log of `modelyard up` itself, `logs/node.log`, and its set-up. On a full disk lines are lost, not the service."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO, cast

from modelyard.log_lines import write_log_lines

if TYPE_CHECKING:
    from pathlib import Path


class LogFile:
    """A stream for loggers, readable by this user only. It raises no error: code that logs does not expect one."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, text: str) -> int:
        """Append text. There is no buffer, which would raise the error of a full disk at a later write."""
        with suppress(OSError):
            os.write(self._descriptor, text.encode(errors="replace"))
        return len(text)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""


def log_to(file: Path) -> None:
    """Write the log of this process as JSON to a file, because its terminal shows the progress."""
    stream = cast("TextIO", LogFile(file))
    logging.basicConfig(stream=stream)
    write_log_lines(stream)
