"""Wait until all objects are ready and answer, or are known not to get ready by themselves. `run` calls it.

The stored status may be from before this start, so an object counts as ready only when its Service answers: that is
only possible with processes of this start (see `reset_status`).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import aiohttp
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from modelyard.local.node.proxy.service_proxy import ServiceProxy
    from modelyard.local.up.rows import Row
    from modelyard.local.up.screen import Screen
    from modelyard.local.up.view import View

# A problem that passes within this time is not reported.
_STUCK_SECONDS: Final = 5.0
# The operator of this start has yet to confirm a problem that was stored by the last one.
_OLD_SECONDS: Final = 30.0
# The watch shows an applied object at once. If there is none by then, the manifests hold none of our kinds.
_NOTHING_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 0.2
# Not every server answers HTTP. After this time its status alone has to do.
_SILENCE_SECONDS: Final = 30.0
_PATIENCE: Final = aiohttp.ClientTimeout(total=5)


async def wait_ready(proxy: ServiceProxy, view: View, screen: Screen) -> list[Row]:
    """Show the objects until they are ready or stuck, and return their last rows."""
    give_up, old, told = None, frozenset(view.rows()), set()
    while True:
        for service, why in proxy.unreachable.items():
            if service not in told:
                screen.say(f"Service {service} cannot be reached: {why}, or change the port of the service")
            told.add(service)
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


async def first_answer(view: View) -> Row:
    """Wait until a service that is ready answers, and return its row."""
    async with aiohttp.ClientSession(timeout=_PATIENCE) as session:
        while True:
            for row in view.rows():
                if row.is_ready and row.url and await answers(session, row.url):
                    return row
            # Not `view.change`, which one caller at a time can wait for; and an answer is no change of an object.
            await asyncio.sleep(_ASK_SECONDS)


def _patience(rows: Sequence[Row], old: Collection[Row]) -> float | None:
    """Return the seconds to wait for the next change of objects that are not all ready; None: without a limit."""
    if not rows:
        return _NOTHING_SECONDS
    if not all(row.is_settled for row in rows):
        return None
    return _OLD_SECONDS if any(row in old for row in rows if not row.is_as_wanted) else _STUCK_SECONDS


async def _answer(rows: Sequence[Row]) -> bool:
    async with aiohttp.ClientSession(timeout=_PATIENCE) as session:
        return all([await answers(session, row.url) for row in rows if row.url and row.is_ready])


async def answers(session: aiohttp.ClientSession, url: str) -> bool:
    """Whether a server answers at the address of a URL with any status below 500."""
    try:
        # Without a check of its certificate, which is the user's own: only whether it answers counts.
        async with session.get(URL(url).with_path("/health"), ssl=False) as answer:
            return answer.status < 500
    except aiohttp.ClientResponseError:
        return True  # it answered, but not in HTTP
    except (aiohttp.ClientError, TimeoutError):
        return False
