"""Wait until everything that was asked for serves, or is known not to by itself.

What objects say of themselves may be from before this start. So nothing counts as serving unless the processes behind
it are of this start, and somebody answers.
"""

from __future__ import annotations

import asyncio
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
_ASK_SECONDS: Final = 0.2
_PATIENCE: Final = aiohttp.ClientTimeout(total=5)


class Unreachable(ModelyardError):
    """A Service has no place on this machine."""


async def until_settled(machine: Machine, view: View, screen: Screen, began: datetime) -> list[Row]:
    """Show how far everything is, and return how it came out."""
    while True:
        for service, why in machine.services.busy.items():
            raise Unreachable(f"Service {service} cannot be reached: {why}, or change the port of the service")
        rows = view.rows()
        screen.show(rows)
        is_good = bool(rows) and all(row.is_ready for row in rows)
        if is_good and await _is_of_this_start(machine, began) and await _answer(rows):
            return rows
        is_over = bool(rows) and all(row.is_settled for row in rows)
        try:
            async with asyncio.timeout(_ASK_SECONDS if is_good else _STUCK_SECONDS if is_over else None):
                await view.change()
        except TimeoutError:
            if not is_good:
                return rows


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
        return all([await answers(session, row.url) for row in rows if row.url])


async def answers(session: aiohttp.ClientSession, url: str) -> bool:
    """Whether somebody answers there. What they say to a question that is none does not matter."""
    try:
        async with session.get(URL(url).with_path("/health")) as answer:
            return answer.status < 500
    except (aiohttp.ClientError, TimeoutError):
        return False
