"""Faults as data: what goes wrong, with which calls, and when. Never by time: by the n-th call or event that fits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from tests.support.calls import Call, Match

_STRUCK_SECONDS = 90.0


class Cut(Struct, frozen=True):
    """The connection breaks: before the request reaches the server, or after the server has carried it out."""

    after_commit: bool = False


class Hold(Struct, frozen=True):
    """The request waits for the gate: before it reaches the server, or after the server has carried it out."""

    gate: asyncio.Event
    after_commit: bool = False


class Delay(Struct, frozen=True):
    """The request reaches the server late."""

    seconds: float


class Answer(Struct, frozen=True):
    """The server never sees the request; the client gets this answer."""

    status: int
    reason: str = ""
    retry_after: int | None = None
    message: str = "injected by a test"


class Kill(Struct, frozen=True):
    """The process behind the request dies; no answer is delivered."""

    kill: Callable[[], None]
    after_commit: bool = False


class HoldEvents(Struct, frozen=True):
    """A watch delivers nothing more, and loses nothing, until the gate opens."""

    gate: asyncio.Event


class DropEvents(Struct, frozen=True):
    """A watch loses an event."""


class CloseWatch(Struct, frozen=True):
    """A watch ends before it delivers an event; with a status, by an ERROR event of that code."""

    status: int = 0
    reason: str = ""


RequestFault = Cut | Hold | Delay | Answer | Kill
EventFault = HoldEvents | DropEvents | CloseWatch
FOREVER = 1 << 62


class Rule(Struct, frozen=True):
    """Let `after` fitting calls (or events, for faults of watches) pass, then strike the next `times`."""

    match: Match
    do: RequestFault | EventFault
    after: int = 0
    times: int = 1

    @property
    def of_events(self) -> bool:
        """Whether it counts the events of watches instead of calls."""
        return isinstance(self.do, HoldEvents | DropEvents | CloseWatch)


class Armed:
    """A rule at work: it counts, and tells when it has struck."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.fitting = 0
        self.strikes = 0
        self._struck = asyncio.Event()

    def is_due(self, call: Call, *, event: bool) -> bool:
        """Count a call or an event if it fits, and say whether it is one to strike."""
        if event != self.rule.of_events or not self.rule.match.fits(call):
            return False
        self.fitting += 1
        return self.rule.after < self.fitting <= self.rule.after + self.rule.times

    def strike(self) -> None:
        """Note that the fault befalls what was counted last."""
        self.strikes += 1
        self._struck.set()

    async def struck(self) -> None:
        """Wait until it has struck for the first time."""
        try:
            async with asyncio.timeout(_STRUCK_SECONDS):
                await self._struck.wait()
        except TimeoutError:
            raise AssertionError(f"{self.rule} has not struck; {self.fitting} calls were such as it is for") from None
