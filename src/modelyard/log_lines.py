"""The one form of all logs: structlog, a line per outcome. `modelyard run` and `modelyard up` choose the stream."""

from __future__ import annotations

import logging
from typing import TextIO

import structlog


def write_log_lines(stream: TextIO, *, json: bool = True, level: int = logging.NOTSET) -> None:
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
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
