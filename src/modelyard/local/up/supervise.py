"""Restart programs of the control plane, and the operator, when they end by themselves: a static pod's restart policy.

`machine` runs one task per program.
"""

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
    """Restart a started program whenever it ends, with back-off, until cancelled. `say` gets a line per restart."""
    backoff = Backoff(_FIRST, _LONGEST)
    while True:
        since = time.monotonic()
        await program.ended()
        if time.monotonic() - since > _CALM:
            backoff.reset()
        say(f"{program.name} ended by itself and is started again; {program.log} may say why")
        await asyncio.sleep(backoff.delay())
        # Closes the lifeline of the process that has ended.
        await program.stop()
        await program.start()
