"""Paths of a container as paths of this machine: what mounts are to a container, for a process.

`launch` calls it. A process sees the real file system, so `/models/x` in its arguments and variables is replaced by the
path in the folder of the volume that is mounted at `/models`. Paths in files, or built into a program, are not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

# A path begins at the start of a word (after a space, quote, "=", ":" and the like) or after file://, and never in the
# middle of another path or a URL.
_BEFORE = r"(?:(?<![\w./\\-])|(?<=file://))"
_AFTER = r"(?=/|$|[^\w.-])"


class Mapped(Struct, frozen=True):
    """A path inside the container, and the path on this machine that it stands for."""

    inside: str
    outside: str


class Paths:
    """The mapped paths of one container."""

    def __init__(self, mapped: Iterable[Mapped] = ()) -> None:
        known = {each.inside.rstrip("/"): each.outside for each in mapped}
        # The longest first: /models/cache may be mounted inside /models.
        self._outside = {inside: known[inside] for inside in sorted(known, key=len, reverse=True) if inside}
        choices = "|".join(re.escape(inside) for inside in self._outside)
        self._pattern = re.compile(f"{_BEFORE}({choices}){_AFTER}") if choices else None

    def local(self, text: str) -> str:
        """Return the text with every mapped path replaced by the path on this machine."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._outside[match.group(1)], text)

    def outside(self, inside: str) -> str | None:
        """Return the path on this machine for a path of the container; None: nothing is mounted there."""
        real = self.local(inside)
        return real if real != inside else None
