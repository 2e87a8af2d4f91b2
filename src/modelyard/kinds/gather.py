"""The rounds in which a kind is asked what to read, without the reading itself.

`runtime/gather.py` reads from caches, `modelyard plan` from files, tests from case files; all three go through here.
What to read may depend on what was read: a service names a Model, and the Model names a claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from modelyard.core.errors import ModelyardError
from modelyard.kinds.contract import Asked, Every

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from modelyard.core.checks import Answer
    from modelyard.core.objects import Stored
    from modelyard.core.resources import Key
    from modelyard.kinds.contract import Kind, Lookup, Named, Object, Read, Seen

ROUNDS: Final = 3


class TooManyRounds(ModelyardError):
    """A bug of a kind: its `reads` names something new after `ROUNDS` rounds."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(f"`reads` of {kind.resource.kind} wants something new after {ROUNDS} rounds")


class Gathering:
    """What one object reads. Iterate over it, and call `found` for each read.

    Checks are only collected, in `asked`: no read depends on their answers.
    """

    def __init__(self, kind: Kind, obj: Object[Any], seen: Seen) -> None:
        self._kind, self._obj = kind, obj
        self._seen = structs.replace(seen, gathering=True)
        self.reads: dict[Read, None] = {}

    def __iter__(self) -> Iterator[Lookup]:
        """Yield the reads to look up, until the kind names nothing new."""
        for _ in range(ROUNDS):
            new = self._new()
            if not new:
                return
            self.reads.update(dict.fromkeys(new))
            yield from (read for read in new if not isinstance(read, Asked))
        if self._new():
            raise TooManyRounds(self._kind)

    def _new(self) -> list[Read]:
        # Each once: two fields may name the same Secret, and each read of it takes a GET.
        named = dict.fromkeys(self._kind.reads(self._obj, self._seen))
        return [read for read in named if read not in self.reads]

    def found(self, read: Lookup, items: Mapping[Key, Stored]) -> None:
        """Record what a read found; an empty mapping: nothing."""
        kept: Mapping[Key, Any] = _facets(read, items) if isinstance(read, Every) else items
        self._seen = structs.replace(self._seen, found={**self._seen.found, read: kept})

    def refused(self, read: Named) -> None:
        """Record that the operator may not make a read of another namespace."""
        self._seen = structs.replace(self._seen, forbidden=self._seen.forbidden | {read})
        self.found(read, {})

    @property
    def asked(self) -> list[Asked]:
        """The checks that the kind named."""
        return [read for read in self.reads if isinstance(read, Asked)]

    def seen(self, answers: Mapping[Asked, Answer]) -> Seen:
        """Return the snapshot of everything that was read, with the answers known so far."""
        known = {read: answers.get(read) for read in self.asked}
        return structs.replace(self._seen, answers=known, gathering=False)


def _facets(read: Every[Any], items: Mapping[Key, Stored]) -> dict[Key, Any]:
    facets = ((key, read.facet(item)) for key, item in items.items())
    return {key: facet for key, facet in facets if facet is not None}
