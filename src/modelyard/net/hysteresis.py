"""Hysteresis between what a server answers and what the status shows, so that one that flaps changes no status.

Pure: no clock, no tasks; the poller calls it with the time. Its counterpart are the success and failure thresholds of
kubelet probes, and one thing more: after each turn from good to bad or back, the next has to wait.
"""

from __future__ import annotations

from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from modelyard.core.backoff import doubled
from modelyard.core.checks import Answer
from modelyard.core.reasons import Reason

BAD_IN_A_ROW: Final = 3
"""How many bad answers in a row it takes to replace a good one, or to be the first answer that counts."""
QUIET_SECONDS: Final = 30.0
"""How long a turn from good to bad, or back, stands before the next may follow."""

_JITTER: Final = 0.1
_SOONEST: Final = 1.0


class Hysteresis(Struct, frozen=True):
    """The answer of one server that counts, and since when; its `answer` is None until one does."""

    answer: Answer | None = None
    bad: int = 0
    """How many bad answers came since the last good one."""
    turned: float = -inf
    """When the answer last turned from good to bad or back. The first answer is no turn."""
    reworded: float = -inf
    """When it last turned, or a bad answer last replaced another bad one."""

    def after(self, answer: Answer, now: float) -> Hysteresis:
        """Return the state after this answer."""
        if self.answer is not None and answer.reason is Reason.API_UNAVAILABLE:
            # The server was not even asked: the API server did not give out what to ask it with.
            return self
        bad = 0 if answer.ok else self.bad + 1
        if self.answer is None and not answer.ok and bad < BAD_IN_A_ROW:
            # A Service takes a moment until its endpoints hold pods that have just become ready.
            return replace(self, bad=bad)
        if self.answer is None or answer == self.answer:
            return replace(self, answer=answer, bad=bad)
        if not self._counts(answer, bad, now):
            return replace(self, bad=bad)
        if answer.ok != self.answer.ok:
            return Hysteresis(answer, bad, turned=now, reworded=now)
        return replace(self, answer=answer, bad=bad, reworded=self.reworded if answer.ok else now)

    def pause(self, every: float, now: float, random: float) -> float:
        """Return the seconds until the next poll: the interval, or a back-off while answers are bad.

        `random` is between 0 and 1, and spreads polls that began together.
        """
        wanted = every if self.bad == 0 else doubled(self.bad, _SOONEST, every)
        jittered = wanted * (1 - _JITTER + 2 * _JITTER * random)
        if not self._withheld:
            return jittered
        # Poll when a turn may count again: otherwise the status would be wrong for up to a whole interval more.
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
        """Whether only the quiet time keeps the latest answer from counting."""
        if self.answer is None or self.answer.ok:
            return self.bad >= BAD_IN_A_ROW
        return self.bad == 0
