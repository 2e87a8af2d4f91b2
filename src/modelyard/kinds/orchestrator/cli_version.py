"""The version of the CLI that an image holds, as far as its tag tells, and what depends on it.

The daemon was called `channels-manager` before 0.167.0, and the system prompt had another variable before 0.105.0. A
tag without a number, such as `latest`, and a digest are taken for the newest version.
"""

from __future__ import annotations

import re
from typing import Final

from modelyard.core import names

DAEMON: Final = "daemon"
OLDER_DAEMON: Final = "channels-manager"

_DAEMON_SINCE: Final = (0, 167, 0)
_PROMPTS_SINCE: Final = (0, 105, 0)
_TAG: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+].*)?")


def daemon(image: str) -> str:
    """Return what the daemon is called in an image."""
    return OLDER_DAEMON if _is_before(image, _DAEMON_SINCE) else DAEMON


def reads_old_prompt(image: str) -> bool:
    """Return whether the CLI of an image reads the system prompt from its older variable."""
    return _is_before(image, _PROMPTS_SINCE)


def _is_before(image: str, version: tuple[int, int, int]) -> bool:
    plain = image.partition("@")[0]
    found = _TAG.fullmatch(plain.removeprefix(names.repository(plain)).removeprefix(":"))
    return found is not None and tuple(int(part or 0) for part in found.groups()) < version
