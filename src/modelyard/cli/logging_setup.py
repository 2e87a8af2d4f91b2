"""The set-up of logging for `modelyard run`: structlog to standard error, one line per outcome."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import structlog
import typer

LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]
LogFormat = Annotated[str, typer.Option(help="json, or text for people.")]


def configure_logging(level: str, style: str) -> None:
    """Write one line per outcome to standard error, as JSON or as text."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise typer.BadParameter(f"{level!r} is not a log level: use debug, info, warning or error")
    if style not in {"json", "text"}:
        raise typer.BadParameter(f"{style!r} is not a log format: use json or text")
    last = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
