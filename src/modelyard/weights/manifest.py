"""`manifest.json`: what a folder holds. Written last, so a folder that has one is whole.

Requests for different files of one source share its folder. Each is a choice of its own in the manifest: whole or not
whatever becomes of the others.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Annotated

import msgspec

from modelyard.core.errors import SpecInvalid
from modelyard.core.source import safe_name
from modelyard.weights import gguf
from modelyard.weights.names import MANIFEST, PARTIAL
from modelyard.weights.volume import explained, sync_folder

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.weights.types import FetchRequest, SourceFile


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """One complete file of the folder."""

    name: str
    size: int
    sha256: str
    etag: str = ""


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The files that requests with the same picks ask for. The first file is the one to serve."""

    files: Annotated[tuple[Kept, ...], msgspec.Meta(min_length=1)]
    picked: tuple[str, ...] = ()
    everything: bool = False

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    def answers(self, request: FetchRequest) -> bool:
        """Whether this is what a request for the same source means."""
        return (self.picked, self.everything) == (request.files, request.everything)


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """What a folder holds, and where it came from. The latest choice is the last."""

    source: str
    cache_key: str
    choices: tuple[Choice, ...]

    @property
    def files(self) -> dict[str, Kept]:
        """Every file by its name, as the latest choice found it."""
        return {file.name: file for choice in self.choices for file in choice.files}

    def with_choice(self, choice: Choice, request: FetchRequest) -> Manifest:
        """Return the manifest after a request was met: its choice replaces an earlier one for such a request."""
        others = tuple(other for other in self.choices if not other.answers(request))
        return msgspec.structs.replace(self, choices=(*others, choice))


def load(folder: Path) -> Manifest | None:
    """Return the manifest of a folder; None: it has none, or one that cannot be read or names files outside."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
        # Files are deleted by these names, and any user of the volume may have edited them.
        for name in manifest.files:
            safe_name(name)
    except (OSError, msgspec.DecodeError, SpecInvalid):
        return None
    return manifest


def of_source(request: FetchRequest) -> Manifest:
    """Return the manifest for the source of a request; an empty one if the folder holds another source, or nothing."""
    manifest = load(request.folder)
    if manifest and manifest.cache_key == request.cache_key:
        return manifest
    return Manifest(request.shown, request.cache_key, ())


def complete(request: FetchRequest) -> Choice | None:
    """Return the choice that answers a request; None: at least one of its files is missing or damaged."""
    manifest = of_source(request)
    choice = next((choice for choice in manifest.choices if choice.answers(request)), None)
    if choice is None or (request.sha256 and [file.sha256 for file in choice.files] != [request.sha256]):
        return None
    if not request.checksums.items() <= {(file.name, file.sha256) for file in choice.files}:
        return None
    # A file that a later request replaced does not go with the rest of this choice any more.
    same = all(manifest.files[file.name].sha256 == file.sha256 for file in choice.files)
    first = choice.files[0]
    gguf_files = {file.name for file in choice.files if request.must_be_gguf(file.name, served=file is first)}
    whole = same and all(_is_whole(file, request, is_gguf=file.name in gguf_files) for file in choice.files)
    return choice if whole else None


def at_hand(request: FetchRequest, upstream: tuple[SourceFile, ...]) -> dict[str, Kept]:
    """Return the files that need not be fetched, by name: another request did, and the source still has them."""
    kept = of_source(request).files
    same = [file for file in upstream if file.name in kept and _same(kept[file.name], file)]
    return {file.name: kept[file.name] for file in same if _is_whole(kept[file.name], request, is_gguf=file.gguf)}


def is_current(choice: Choice, upstream: tuple[SourceFile, ...]) -> bool:
    """Whether the source still has the same files: by hash, else by ETag, else by size."""
    kept = {file.name: file for file in choice.files}
    return kept.keys() == {file.name for file in upstream} and all(_same(kept[file.name], file) for file in upstream)


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest by a rename, so that no reader ever sees half of it."""
    partial = folder / f"{MANIFEST}.{os.urandom(6).hex()}{PARTIAL}"
    with explained(folder), partial.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
        partial.replace(folder / MANIFEST)
    sync_folder(folder)


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_whole(kept: Kept, request: FetchRequest, *, is_gguf: bool) -> bool:
    path = request.folder / kept.name
    try:
        # Earlier releases have kept files that are no GGUF.
        if path.stat().st_size != kept.size or (is_gguf and gguf.fault(path)):
            return False
        return not request.verify or digest(path) == kept.sha256
    except OSError:
        return False


def _same(kept: Kept, upstream: SourceFile) -> bool:
    if upstream.sha256:
        return kept.sha256 == upstream.sha256
    if kept.etag and upstream.etag:
        return kept.etag == upstream.etag
    return upstream.size is not None and kept.size == upstream.size
