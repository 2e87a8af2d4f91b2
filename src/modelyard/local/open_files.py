"""The limit of open files of programs that pass streams on: each takes two, one to its client and one to its engine.

The soft limit is made for programs that wait with `select`, and is 256 on macOS and 1,024 on most Linux systems.
`modelyard up` and the host daemon raise it at the start, as other servers do. What they start inherits it: the door and
engines have a connection for each stream, too.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

MOST: Final = 65_536
"""More than any machine serves, and few enough for programs that go through all numbers when they start."""
_MACOS: Final = 10_240
"""What macOS allows in any case; it refuses more than `kern.maxfilesperproc`, whatever the hard limit is."""


def raise_open_files() -> int:
    """Raise the soft limit of open files of this process towards its hard limit, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (MOST, _MACOS):
        target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft == resource.RLIM_INFINITY or soft >= target:
            break
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            return target
    return soft
