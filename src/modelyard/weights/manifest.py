"""`manifest.json`: what a folder holds. Written last, so a folder that has one is whole."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

import msgspec

from modelyard.weights.volume import explained, sync_folder

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.weights.values import Order, Upstream

NAME: Final = "manifest.json"


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file that is there."""

    name: str
    size: int
    sha256: str
    etag: str = ""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """What a folder holds, and where it came from. The first file is the one to serve."""

    source: str
    cache_key: str
    files: tuple[Kept, ...]
    picked: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def names(self) -> frozenset[str]:
        """What the files are called."""
        return frozenset(file.name for file in self.files)


def load(folder: Path) -> Manifest | None:
    """Return the manifest of a folder, if it has one that can be read."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError):
        return None


def complete(order: Order) -> Manifest | None:
    """Return the manifest if it answers this order and every file has its size."""
    manifest = load(order.folder)
    if manifest is None or (manifest.cache_key, manifest.picked) != (order.cache_key, order.files):
        return None
    if order.sha256 and [file.sha256 for file in manifest.files] != [order.sha256]:
        return None
    whole = all(_is_whole(order.folder / file.name, file, read=order.verify) for file in manifest.files)
    return manifest if whole else None


def is_current(manifest: Manifest, upstream: tuple[Upstream, ...]) -> bool:
    """Whether upstream still has what is kept: by hash, else by ETag, else by size."""
    kept = {file.name: file for file in manifest.files}
    return kept.keys() == {file.name for file in upstream} and all(_same(kept[file.name], file) for file in upstream)


def write(folder: Path, manifest: Manifest) -> None:
    """Put the manifest there at once and as a whole."""
    partial = folder / f"{NAME}.{os.urandom(6).hex()}.partial"
    with explained(folder), partial.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
        partial.replace(folder / NAME)
    sync_folder(folder)


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_whole(path: Path, kept: Kept, *, read: bool) -> bool:
    try:
        return path.stat().st_size == kept.size and (not read or digest(path) == kept.sha256)
    except OSError:
        return False


def _same(kept: Kept, upstream: Upstream) -> bool:
    if upstream.sha256:
        return kept.sha256 == upstream.sha256
    if kept.etag and upstream.etag:
        return kept.etag == upstream.etag
    return upstream.size is not None and kept.size == upstream.size
