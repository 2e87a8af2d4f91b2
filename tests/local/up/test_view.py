"""The view of all objects is as new as what was applied last."""

from __future__ import annotations

import asyncio

from modelyard.core.objects import Stored
from modelyard.kinds.inferenceservice.api import RESOURCE as SERVICE
from modelyard.local.up.view import View


def stored(name: str, revision: int) -> Stored:
    meta = {"name": name, "namespace": "default", "resourceVersion": str(revision)}
    return Stored.from_dict(SERVICE, {"metadata": meta})


async def test_what_was_applied_is_waited_for_until_the_watch_has_shown_it() -> None:
    view = View(dict)
    view._stores[SERVICE].replace([stored("old", 5)], 6)
    waiting = asyncio.create_task(view.has_seen([stored("new", 7)]))
    for revision in (6, 7):
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        view._stores[SERVICE].upsert(stored("old" if revision == 6 else "new", revision))
    async with asyncio.timeout(60):
        await waiting


async def test_what_was_applied_and_deleted_at_once_is_not_waited_for() -> None:
    view = View(dict)
    view._stores[SERVICE].replace([], 6)
    view._stores[SERVICE].remove(stored("gone", 8))
    async with asyncio.timeout(60):
        await view.has_seen([stored("gone", 7)])
