"""The home folder of the user, and paths below it. A container or a service may run as a user who has none."""

from __future__ import annotations

import os
from pathlib import Path


def home_folder() -> Path | None:
    """Return the home folder of this user; None: `HOME` is not set, and the system does not know the user."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def at_home(path: Path) -> Path:
    """Return what `~/x` means, which a shell leaves as it is after `=`; `~x` is a file if there is no such user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - the other one raises if there is no such user
