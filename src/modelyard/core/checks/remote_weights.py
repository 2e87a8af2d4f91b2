"""The check of a Model's source, answered by `net/source_check.py`."""

from __future__ import annotations

from modelyard.core.checks import Check


class RemoteWeights(Check, frozen=True):
    """Ask the server of a URL which file it has: its size, its version and its GGUF header.

    A `file://` URL is a file that the operator sees itself.
    """

    url: str
    every: float
    gguf: bool = True
    """Whether the file should begin with a GGUF header."""
    known: str = ""
    """The version that pods had when this was asked: an answer from before must not be compared with a newer one."""
