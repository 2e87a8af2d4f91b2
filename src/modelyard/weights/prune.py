"""The removal of weights that are not used any more, from the volume that others are fetched onto.

`fetch` calls it before anything is downloaded, so that there is room. Only the client that asks for it knows what is in
use: pods that read weights hold no lock. Nothing but folders that are named like ours is touched.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from modelyard.weights.names import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from modelyard.weights.progress import Say
    from modelyard.weights.types import FetchRequest

_FOLDER: Final = re.compile(r"[0-9a-f]{16}")
"""The first digits of a hash of the source: `cache_key` names folders like this."""


def prune(request: FetchRequest, say: Say) -> None:
    """Remove the folders of weights beside that of a request, but for those to keep; none, if it names none to keep.

    What cannot be removed is left: it is no reason not to fetch.
    """
    if not request.prune_except:
        return
    with suppress(OSError):
        for folder in sorted(_others(request)):
            _remove(folder)
            say({"removed": folder.name})


def _others(request: FetchRequest) -> Iterator[Path]:
    kept = {request.folder.name, *request.prune_except}
    for path in request.folder.parent.iterdir():
        if path.name not in kept and _FOLDER.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            yield path


def _remove(folder: Path) -> None:
    # First, or a removal that is cut off would leave a manifest that vouches for files which are gone.
    (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder)
