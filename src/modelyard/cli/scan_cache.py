"""`modelyard scan-cache`: what the pod of `modelyard cache` runs on a claim. It loads nothing that needs a cluster."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - typer reads the type when it runs
from typing import Annotated

import msgspec
import typer

from modelyard.weights import cache as volumes


def scan_cache(
    root: Annotated[Path, typer.Argument(help="Where the cache is mounted.")],
    remove: Annotated[list[str] | None, typer.Option(help="The key of a folder to remove. Repeatable.")] = None,
) -> None:
    """Print the folders of a cache as JSON, or those that were removed. What `modelyard cache` runs in its pod."""
    found = volumes.remove(root, remove) if remove else volumes.scan(root)
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
