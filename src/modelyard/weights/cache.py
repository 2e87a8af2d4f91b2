"""What is in a cache of weights, folder by folder, and the removal of folders. `modelyard cache` runs it in a pod.

Each source has a folder of its own, named by the key of the source. Folders with other names are not ours, and neither
listed nor removed.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core.source import cache_key
from modelyard.weights.manifest import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_SHOWN: Final = 20
_KEY_LENGTH: Final = len(cache_key(""))


class Folder(Struct, frozen=True):
    """The weights of one source."""

    key: str
    size: int
    """In bytes, links not counted."""
    source: str = ""
    """Without passwords; empty: the download was never complete."""
    files: tuple[str, ...] = ()
    """The names of the largest files, at most 20."""
    count: int = 0
    """How many files there are."""


def scan(root: Path) -> list[Folder]:
    """Return the folders of a cache, sorted by key; empty: nothing was ever fetched."""
    return [_folder(folder) for folder in sorted(_folders(root))]


def remove(root: Path, keys: Iterable[str]) -> list[Folder]:
    """Remove the folders with these keys, and return what they held. A key that is not there is fine."""
    wanted = set(keys)
    found = [(folder, _folder(folder)) for folder in sorted(_folders(root)) if folder.name in wanted]
    for folder, _ in found:
        shutil.rmtree(folder)
    return [held for _, held in found]


def _folders(root: Path) -> Iterator[Path]:
    for each in root.iterdir() if root.is_dir() else ():
        # A link would lead the removal somewhere else.
        if each.is_dir() and not each.is_symlink() and len(each.name) == _KEY_LENGTH and _is_hexadecimal(each.name):
            yield each


def _is_hexadecimal(text: str) -> bool:
    return all(character in "0123456789abcdef" for character in text)


def _folder(folder: Path) -> Folder:
    sizes = {file.relative_to(folder).as_posix(): file.stat().st_size for file in folder.rglob("*") if _is_plain(file)}
    manifest = load(folder)
    return Folder(
        key=folder.name,
        size=sum(sizes.values()),
        source=manifest.source if manifest else "",
        files=tuple(sorted(sizes, key=lambda name: (-sizes[name], name))[:_SHOWN]),
        count=len(sizes),
    )


def _is_plain(file: Path) -> bool:
    return file.is_file() and not file.is_symlink()
