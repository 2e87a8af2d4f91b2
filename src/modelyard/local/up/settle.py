"""Wait until everything that was asked for serves, or is known not to by itself.

What objects say of themselves may be from before this start. So nothing counts as serving unless the processes behind
it are of this start, and somebody answers.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from yarl import URL

from modelyard.core.conditions import Truth, stored_condition
from modelyard.core.errors import ModelyardError
from modelyard.core.resources import POD
from modelyard.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelyard.core.stored import Stored
    from modelyard.local.up.machine import Machine
    from modelyard.local.up.rows import Row
    from modelyard.local.up.screen import Screen
    from modelyard.local.up.view import View

# Trouble that passes by itself is not worth an alarm.
_STUCK_SECONDS: Final = 5.0
# What was applied is seen at once. If nothing is, the files hold none of our kinds.
_NOTHING_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 0.2
# Not every server speaks when it is spoken to in HTTP. Then what its probes say has to do.
_SILENCE_SECONDS: Final = 30.0
_PATIENCE: Final = aiohttp.ClientTimeout(total=5)


class Unreachable(ModelyardError):
    """A Service has no place on this machine."""


async def until_settled(machine: Machine, view: View, screen: Screen, began: datetime) -> list[Row]:
    """Show how far everything is, and return how it came out."""
    give_up = None
    while True:
        for service, why in machine.services.busy.items():
            raise Unreachable(f"Service {service} cannot be reached: {why}, or change the port of the service")
        rows = view.rows()
        screen.show(rows)
        is_good = bool(rows) and all(row.is_as_wanted for row in rows)
        give_up = (give_up or time.monotonic() + _SILENCE_SECONDS) if is_good else None
        if give_up and (await _serve(machine, rows, began) or time.monotonic() > give_up):
            return rows
        try:
            async with asyncio.timeout(_ASK_SECONDS if is_good else _patience(rows)):
                await view.change()
        except TimeoutError:
            if not is_good:
                return rows


def _patience(rows: Sequence[Row]) -> float | None:
    """Return how long to wait for the next change of objects that do not serve; None: as long as it takes."""
    if not rows:
        return _NOTHING_SECONDS
    return _STUCK_SECONDS if all(row.is_settled for row in rows) else None


async def _serve(machine: Machine, rows: Sequence[Row], began: datetime) -> bool:
    return await _is_of_this_start(machine, began) and await _answer(rows)


async def _is_of_this_start(machine: Machine, began: datetime) -> bool:
    try:
        pods = (await machine.client.list_page(POD)).items
    except KubeError:
        # The API server is being started again; we ask again too.
        return False
    return all(began_after(pod, began) for pod in pods)


def began_after(pod: Stored, moment: datetime) -> bool:
    """Whether a pod is not ready, or is so by containers that began after a moment."""
    status = pod.status
    if stored_condition(status, "Ready").get("status") != Truth.TRUE:
        return True
    return all(_since(container) >= moment.replace(microsecond=0) for container in status["containerStatuses"])


def _since(container: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(container["state"]["running"]["startedAt"])


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
