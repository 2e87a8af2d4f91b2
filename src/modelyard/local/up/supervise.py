"""Start programs again when they end by themselves."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NoReturn

from modelyard.local.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.local.program import Program

_FIRST: Final = 0.2
_LONGEST: Final = 30.0
_CALM: Final = 60.0


async def supervise(program: Program, say: Callable[[str], None]) -> NoReturn:
    """Keep a started program running until cancelled: at once at first, more slowly when it ends again and again."""
    backoff = Backoff(_FIRST, _LONGEST)
    while True:
        since = time.monotonic()
        await program.ended()
        if time.monotonic() - since > _CALM:
            backoff.reset()
        say(f"{program.name} ended by itself and is started again; {program.log} may say why")
        await asyncio.sleep(backoff.delay())
        await program.stop()
        await program.start()
