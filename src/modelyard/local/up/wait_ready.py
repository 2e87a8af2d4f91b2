"""Wait until everything that was asked for serves, or is known not to by itself.

What our objects say of themselves may be from before this start. So nothing counts as serving unless somebody answers,
which only processes of this start can do (see `reset_status`).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import aiohttp
from yarl import URL

from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from modelyard.local.node.proxy.service_proxy import ServiceProxy
    from modelyard.local.up.rows import Row
    from modelyard.local.up.screen import Screen
    from modelyard.local.up.view import View

# Trouble that passes by itself is not worth an alarm.
_STUCK_SECONDS: Final = 5.0
# Of what was wrong in the last start, the operator of this one has yet to say whether it still is.
_OLD_SECONDS: Final = 30.0
# What was applied is seen at once. If nothing is, the files hold none of our kinds.
_NOTHING_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 0.2
# Not every server speaks when it is spoken to in HTTP. Then what its probes say has to do.
_SILENCE_SECONDS: Final = 30.0
_PATIENCE: Final = aiohttp.ClientTimeout(total=5)


class Unreachable(ModelyardError):
    """A Service has no place on this machine."""


async def wait_ready(proxy: ServiceProxy, view: View, screen: Screen) -> list[Row]:
    """Show how far everything is, and return how it came out."""
    give_up, old = None, frozenset(view.rows())
    while True:
        for service, why in proxy.unreachable.items():
            raise Unreachable(f"Service {service} cannot be reached: {why}, or change the port of the service")
        rows = view.rows()
        screen.show(rows)
        is_good = bool(rows) and all(row.is_as_wanted for row in rows)
        give_up = (give_up or time.monotonic() + _SILENCE_SECONDS) if is_good else None
        if give_up and (await _answer(rows) or time.monotonic() > give_up):
            return rows
        try:
            async with asyncio.timeout(_ASK_SECONDS if is_good else _patience(rows, old)):
                await view.change()
        except TimeoutError:
            if not is_good:
                return rows


def _patience(rows: Sequence[Row], old: Collection[Row]) -> float | None:
    """Return how long to wait for the next change of objects that do not serve; None: as long as it takes."""
    if not rows:
        return _NOTHING_SECONDS
    if not all(row.is_settled for row in rows):
        return None
    return _OLD_SECONDS if any(row in old for row in rows if not row.is_as_wanted) else _STUCK_SECONDS


async def _answer(rows: Sequence[Row]) -> bool:
    async with aiohttp.ClientSession(timeout=_PATIENCE) as session:
        return all([await answers(session, row.url) for row in rows if row.url and row.is_ready])


async def answers(session: aiohttp.ClientSession, url: str) -> bool:
    """Whether somebody answers there. What they say to a question that is none does not matter."""
    try:
        # What it shows is the user's own, and proves nothing here.
        async with session.get(URL(url).with_path("/health"), ssl=False) as answer:
            return answer.status < 500
    except aiohttp.ClientResponseError:
        return True  # in words that are not HTTP
    except (aiohttp.ClientError, TimeoutError):
        return False
