"""All objects of our kinds, followed by watches, as rows to show. `run` and `wait_ready` use it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from modelyard.kinds import ALL
from modelyard.kube.watch import Target, follow
from modelyard.local.store import Store
from modelyard.local.up.rows import Row, rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from modelyard.core.objects import Stored
    from modelyard.kube.client import Client
    from modelyard.local.node.proxy.service_dns import ServiceAddresses


class View:
    """The objects of our kinds, and a way to wait for their next change. Made inside an event loop."""

    def __init__(self, service_addresses: Callable[[], ServiceAddresses]) -> None:
        self._service_addresses = service_addresses
        self._changed = asyncio.Event()
        self._stores = {kind.resource: Store(self._changed.set) for kind in ALL}

    @asynccontextmanager
    async def following(self, client: Client) -> AsyncIterator[None]:
        """Follow all our kinds while the block lasts. It begins when all their objects are known."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(follow(client, Target(each), sink)) for each, sink in self._stores.items()]
            while not all(store.is_filled for store in self._stores.values()):
                await self.change()
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def change(self) -> None:
        """Wait until an object has changed since the last call."""
        await self._changed.wait()
        self._changed.clear()

    async def has_seen(self, applied: Iterable[Stored]) -> None:
        """Wait until the watches have shown these objects, or what became of them since.

        Objects of other kinds are not followed, and not waited for.
        """
        for item in applied:
            store = self._stores.get(item.resource)
            while store is not None and store.revision < item.meta.revision:
                await self.change()

    @property
    def items(self) -> list[Stored]:
        """All objects of our kinds."""
        return [item for store in self._stores.values() for item in store.items.values()]

    def rows(self) -> list[Row]:
        """Return the rows of all objects."""
        return rows(self.items, self._service_addresses())
