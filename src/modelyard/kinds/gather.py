"""The order in which a kind is asked what to read, whoever looks it up: caches, files or cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from modelyard.kinds.contract import Asked, Every, Named, Owned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Key
    from modelyard.kinds.contract import Kind, Object, Read, Seen

ROUNDS: Final = 3
"""What to read may depend on what was read, this many times over."""


class Gathering:
    """What one object reads. Iterate over it, and tell it of each read what was found.

    Questions are only collected: nobody has to wait for their answers.
    """

    def __init__(self, kind: Kind, obj: Object[Any], seen: Seen) -> None:
        self._kind, self._obj = kind, obj
        self.seen = seen
        self.reads: dict[Read, None] = {}

    def __iter__(self) -> Iterator[Named | Owned | Every]:
        """Yield what is to be looked up, until the kind wants nothing new."""
        for _ in range(ROUNDS):
            new = [read for read in self._kind.reads(self._obj, self.seen) if read not in self.reads]
            if not new:
                return
            self.reads.update(dict.fromkeys(new))
            yield from (read for read in new if not isinstance(read, Asked))

    def found(self, read: Named | Owned | Every, items: Mapping[Key, Stored]) -> None:
        """Take what was found."""
        self.seen = structs.replace(self.seen, found={**self.seen.found, read: items})

    @property
    def asked(self) -> list[Asked]:
        """The questions."""
        return [read for read in self.reads if isinstance(read, Asked)]
