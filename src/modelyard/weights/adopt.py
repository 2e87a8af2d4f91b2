"""Adopt weights that another program put into the folder: LLMKube keeps its file under the name of our link.

Only a file that no manifest vouches for is adopted, and only one that is as long as the source says, which is all that
is known of most downloads, too. Where the source names a hash, it must be that of the file.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from modelyard.weights import manifest as manifests

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.weights.partial import Partial
    from modelyard.weights.types import FetchRequest, SourceFile


def adopt(request: FetchRequest, file: SourceFile, partial: Partial) -> None:
    """Let a file that is already there stand for its download, if it is the file to be fetched.

    It gets a second name and keeps the first: pods of the other program may be reading it.
    """
    if partial.present or manifests.load(request.folder):
        return
    names = dict.fromkeys(name for name in (file.name, request.link) if name)
    found = next((path for path in map(request.folder.joinpath, names) if _is(path, file)), None)
    if found is None:
        return
    # Not every volume knows second names, and not every user may give them: then it is fetched.
    with suppress(OSError):
        os.link(found, partial.path)


def _is(path: Path, file: SourceFile) -> bool:
    try:
        alike = not path.is_symlink() and path.is_file() and path.stat().st_size == file.size
        return alike and (not file.sha256 or manifests.digest(path) == file.sha256)
    except OSError:
        return False
