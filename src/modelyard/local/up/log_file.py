"""The log of a program that goes on when the disk is full: a line that finds no room is lost, and nothing else."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO, cast

import structlog

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


def log_to(file: Path) -> None:
    """Keep the log of this process out of what people look at."""
    stream = cast("TextIO", LogFile(file))
    logging.basicConfig(stream=stream)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
