"""The version of the CLI that an image holds, as far as its tag tells, and what depends on it.

The daemon was called `channels-manager` before 0.167.0, and the system prompt had another variable before 0.105.0.
"""

from __future__ import annotations

from typing import Final

from modelyard.kinds.shared.image_version import is_before

DAEMON: Final = "daemon"
OLDER_DAEMON: Final = "channels-manager"

_DAEMON_SINCE: Final = (0, 167, 0)
_PROMPTS_SINCE: Final = (0, 105, 0)


def daemon(image: str) -> str:
    """Return what the daemon is called in an image."""
    return OLDER_DAEMON if is_before(image, _DAEMON_SINCE) else DAEMON


def reads_old_prompt(image: str) -> bool:
    """Return whether the CLI of an image reads the system prompt from its older variable."""
    return is_before(image, _PROMPTS_SINCE)
