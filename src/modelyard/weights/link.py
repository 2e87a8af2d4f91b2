"""A second name for the file to serve, so that its path is known before its own name is.

A symbolic link beside the file, renamed into place and never in the place of a file of a model. No request owns a link:
requests with different links into one folder keep them all.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from modelyard.core.errors import SpecInvalid
from modelyard.core.exitcodes import Code
from modelyard.core.source import MAIN, Hub, safe_name
from modelyard.weights import manifest as manifests
from modelyard.weights.choose import is_split
from modelyard.weights.failures import FetchFailed
from modelyard.weights.names import PARTIAL, is_ours
from modelyard.weights.volume import explained, sync_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from modelyard.core.source import Source
    from modelyard.weights.types import FetchRequest

_UNKNOWN: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


def refuse_bad_name(request: FetchRequest) -> None:
    """Refuse a name that could lead elsewhere or hide one of our own files."""
    if not request.link:
        return
    if request.everything:
        raise FetchFailed(Code.REFUSED, "a link names one file, not all of them", "leave out --link or --all")
    try:
        plain = "/" not in safe_name(request.link) and not is_ours(request.link)
    except SpecInvalid:
        plain = False
    if not plain:
        raise FetchFailed(Code.REFUSED, f"the link {request.link[:200]!r} is no plain name", "choose another name")


def refuse_clash(request: FetchRequest, source: Source, names: Sequence[str]) -> None:
    """Refuse files and a link that cannot be together in the folder. The first file is the one to serve."""
    for name in names:
        top = name.split("/")[0]
        with explained(request.folder):
            is_link = (request.folder / top).is_symlink()
        if top != request.link and is_link:
            message = f"{top} is a link that an earlier order made, and the name of a file of this one"
            raise FetchFailed(Code.REFUSED, message, "fetch into another folder")
    if not request.link or names[0] == request.link:
        return
    if is_split(names[0]):
        message = f"{names[0]} is one part of several, which would not be found by the link {request.link}"
        raise FetchFailed(Code.REFUSED, message, _by_its_name(source, names[0]))
    if request.link in {name.split("/")[0] for name in names}:
        raise _taken(request)


def is_made(request: FetchRequest, first: str) -> bool:
    """Whether the link leads to the first file, or none is wanted."""
    if request.link in ("", first):
        return True
    try:
        return str((request.folder / request.link).readlink()) == first
    except OSError:
        return False


def make(request: FetchRequest, first: str) -> None:
    """Make the link lead to the first file."""
    if is_made(request, first):
        return
    path = request.folder / request.link
    partial = request.folder / f"{request.link}.{os.urandom(6).hex()}{PARTIAL}"
    with explained(request.folder):
        if _is_of_the_model(path):
            raise _taken(request)
        try:
            partial.symlink_to(first)
        except OSError as error:
            if error.errno in _UNKNOWN:
                message = f"the volume of {request.folder} knows no links"
                raise FetchFailed(Code.REFUSED, message, "use another volume, or leave out --link") from error
            raise
        partial.replace(path)
    sync_folder(request.folder)


def _is_of_the_model(path: Path) -> bool:
    """Whether a file that we vouch for, or a folder, has this name. Any other file was left by another program."""
    if path.is_symlink() or not path.exists():
        return False
    known = manifests.load(path.parent)
    return path.is_dir() or (known is not None and path.name in known.files)


def _by_its_name(source: Source, first: str) -> str:
    if not isinstance(source, Hub) or source.file:
        return f"leave out --link, and serve {first}"
    revision = "" if source.revision == MAIN else f"@{quote(source.revision, safe='')}"
    return f"name it in the source: hf://{source.repo}{revision}/{first}"


def _taken(request: FetchRequest) -> FetchFailed:
    message = f"the link {request.link} has the name of a file or folder of the model"
    return FetchFailed(Code.REFUSED, message, "choose another name")
