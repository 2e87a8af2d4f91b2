"""The log of `modelyard up` itself, `logs/node.log`, and its set-up."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, TextIO, cast

from modelyard.log_lines import LogStream, write_log_lines

if TYPE_CHECKING:
    from pathlib import Path


def open_log(file: Path) -> LogStream:
    """Return a stream that appends to a file, which only this user can read."""
    return LogStream(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))


def log_to(file: Path) -> None:
    """Write the log of this process as JSON to a file, because its terminal shows the progress."""
    stream = open_log(file)
    logging.basicConfig(stream=cast("TextIO", stream))
    write_log_lines(stream)
