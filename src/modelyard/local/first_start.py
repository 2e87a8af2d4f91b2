"""The first start of a database: until it has answered once, what is on disk is worth nothing.

An etcd that is killed after it has created its journal, and before it has entered itself there as a member, looks at
the next start for members that do not exist, and never answers. `controlplane` starts such a database afresh.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def begin_database(data: Path) -> None:
    """Empty the folder of a database that has never answered; that of any other stays as it is."""
    mark = _mark(data)
    if mark.exists():
        for entry in data.iterdir():
            shutil.rmtree(entry)
    elif not any(data.iterdir()):
        mark.touch(mode=0o600)


def database_answered(data: Path) -> None:
    """Note that the database has answered: from now on its folder holds objects of the user."""
    _mark(data).unlink(missing_ok=True)
    # A mark that came back after a power cut would cost the user everything.
    folder = os.open(data.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _mark(data: Path) -> Path:
    return data.with_name(f"{data.name}-never-answered")
