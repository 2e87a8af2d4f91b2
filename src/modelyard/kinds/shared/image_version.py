"""The version of the program that an image holds, as far as its tag tells.

Pure. Kinds ask it where a program changed what it reads. A tag without a number, such as `latest`, and a digest are
taken for the newest version.
"""

from __future__ import annotations

import re
from typing import Final

from modelyard.core import names

Version = tuple[int, int, int]

_TAG: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+].*)?")


def is_before(image: str, version: Version) -> bool:
    """Return whether the tag of an image tells a version before this one."""
    plain = image.partition("@")[0]
    found = _TAG.fullmatch(plain.removeprefix(names.repository(plain)).removeprefix(":"))
    return found is not None and tuple(int(part or 0) for part in found.groups()) < version
