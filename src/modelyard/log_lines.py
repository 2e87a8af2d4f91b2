"""The one form of all logs: structlog, a line per outcome. `modelyard run` and `modelyard up` choose the stream.

On a full disk, or when the other end of a pipe is gone, lines are lost, and not the program that writes them.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TextIO, cast

import structlog


class LogStream:
    """A stream for loggers on an open file. It raises no error: code that logs does not expect one."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def isatty(self) -> bool:
        """Whether people read it, on a terminal."""
        return os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        """Append text. There is no buffer, which would raise the error of a full disk at a later write."""
        with suppress(OSError):
            os.write(self._descriptor, text.encode(errors="replace"))
        return len(text)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""


def write_log_lines(stream: LogStream, *, json: bool = True, level: int = logging.NOTSET) -> None:
    """Write log lines from this level on to a stream, as JSON or as text for people."""
    last = structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", stream)),
        cache_logger_on_first_use=True,
    )
