"""The set-up of logging for `modelyard run`: structlog to standard error, one line per outcome."""

from __future__ import annotations

import logging
from typing import Annotated, Final

import typer

from modelyard.log_lines import LogStream, write_log_lines

_STANDARD_ERROR: Final = 2

LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]
LogFormat = Annotated[str, typer.Option(help="json, or text for people.")]


def configure_logging(level: str, style: str) -> None:
    """Write one line per outcome to standard error, as JSON or as text."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise typer.BadParameter(f"{level!r} is not a log level: use debug, info, warning or error")
    if style not in {"json", "text"}:
        raise typer.BadParameter(f"{style!r} is not a log format: use json or text")
    write_log_lines(LogStream(_STANDARD_ERROR), json=style == "json", level=number)
