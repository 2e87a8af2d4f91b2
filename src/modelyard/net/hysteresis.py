"""When an answer counts: hysteresis between what a server says and what status shows.

Pure: no clock, no tasks. A good first answer is believed at once, a bad one when it stays. A server that flaps keeps
its last steady answer.
"""

from __future__ import annotations

from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from modelyard.core.checks import Answer

BAD_IN_A_ROW: Final = 3
"""So many bad answers it takes to disbelieve a good one, or to believe a bad one first."""
QUIET_SECONDS: Final = 30.0
"""So long a turn from good to bad, or back, stands before the next."""

_JITTER: Final = 0.1
_SOONEST: Final = 1.0
_MOST_DOUBLINGS: Final = 16


class Hysteresis(Struct, frozen=True):
    """What is believed of one server, and since when."""

    answer: Answer | None = None
    bad: int = 0
    """How many bad answers came since the last good one."""
    turned: float = -inf
    """When the belief last turned from good to bad or back. The first answer is no turn."""
    reworded: float = -inf
    """When it last turned, or one bad answer last took the place of another."""

    def after(self, answer: Answer, now: float) -> Hysteresis:
        """Return what is believed once this answer came."""
        bad = 0 if answer.ok else self.bad + 1
        if self.answer is None and not answer.ok and bad < BAD_IN_A_ROW:
            # A Service takes a moment until it leads to pods that have just become ready.
            return replace(self, bad=bad)
        if self.answer is None or answer == self.answer:
            return replace(self, answer=answer, bad=bad)
        if not self._counts(answer, bad, now):
            return replace(self, bad=bad)
        if answer.ok != self.answer.ok:
            return Hysteresis(answer, bad, turned=now, reworded=now)
        return replace(self, answer=answer, bad=bad, reworded=self.reworded if answer.ok else now)

    def pause(self, every: float, now: float, random: float) -> float:
        """Return how long to wait before asking again; `random` is between 0 and 1."""
        wanted = every if self.bad == 0 else min(every, _SOONEST * 2 ** min(self.bad - 1, _MOST_DOUBLINGS))
        jittered = wanted * (1 - _JITTER + 2 * _JITTER * random)
        if not self._withheld:
            return jittered
        # Ask when a turn would count again, instead of finding out a whole interval later.
        return min(jittered, max(_SOONEST, self.turned + QUIET_SECONDS - now))

    def _counts(self, answer: Answer, bad: int, now: float) -> bool:
        was_ok = self.answer is not None and self.answer.ok
        if was_ok and answer.ok:
            return True
        if was_ok and bad < BAD_IN_A_ROW:
            return False
        since = self.turned if answer.ok != was_ok else self.reworded
        return now - since >= QUIET_SECONDS

    @property
    def _withheld(self) -> bool:
        """Whether the latest answer would have turned the belief, but for the quiet time."""
        if self.answer is None or self.answer.ok:
            return self.bad >= BAD_IN_A_ROW
        return self.bad == 0
