"""What things in a folder of weights are called. Names that are ours are never those of a model's files."""

from __future__ import annotations

from typing import Final

MANIFEST: Final = "manifest.json"
LOCK: Final = ".lock"
PARTIAL: Final = ".partial"


def is_ours(name: str) -> bool:
    """Whether a file of this name would be taken for one of ours."""
    return name in (MANIFEST, LOCK) or name.endswith(PARTIAL)
