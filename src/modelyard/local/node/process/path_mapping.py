"""Paths of a container on a machine that has no containers.

A process sees the real file system, so a path such as `/models/x` in its arguments and environment is replaced by the
folder that stands in for the volume mounted at `/models`. What a program reads from files, or knows by itself, cannot
be replaced.
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
    """A path as the container knows it, and what it is on this machine."""

    inside: str
    outside: str


class Paths:
    """All paths of one container that are elsewhere on this machine."""

    def __init__(self, mapped: Iterable[Mapped] = ()) -> None:
        known = {each.inside.rstrip("/"): each.outside for each in mapped}
        # The longest first: /models/cache may be mounted inside /models.
        self._outside = {inside: known[inside] for inside in sorted(known, key=len, reverse=True) if inside}
        choices = "|".join(re.escape(inside) for inside in self._outside)
        self._pattern = re.compile(f"{_BEFORE}({choices}){_AFTER}") if choices else None

    def local(self, text: str) -> str:
        """Return the text with every known path replaced by the real one."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._outside[match.group(1)], text)

    def outside(self, inside: str) -> str | None:
        """Return where one path of the container is; None: nothing is mounted there."""
        real = self.local(inside)
        return real if real != inside else None
