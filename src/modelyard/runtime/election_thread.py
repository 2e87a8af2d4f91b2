"""Runs the elector in a thread of its own, and the workers for as long as it holds the Lease.

`manager` makes one `Leadership`. A reconcile that keeps the event loop busy must not delay a renewal, so the elector
has its own event loop and its own connections. It reports to the loop of the workers, and releases the Lease only when
it is told that the last worker has stopped: two leaders at a time would write against each other.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from modelyard.runtime.lease import Elector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from modelyard.core.resources import Key
    from modelyard.kube.client import Client

TLS_CLOSE_SECONDS: Final = 0.1
"""How long closed connections get to finish their TLS shutdown."""

_log = structlog.get_logger()


class Leadership:
    """Whether this replica leads, as the event loop of the workers sees it. Used in that loop's thread only."""

    def __init__(self, connect: Callable[[], Client], key: Key, identity: str) -> None:
        self._connect, self._key, self._identity = connect, key, identity
        self.leading = False
        self._worker_loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._stopped: asyncio.Future[None] = self._worker_loop.create_future()
        self._elector_loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run `lead` whenever we hold the Lease, and cancel it when the Lease is lost. Runs until cancelled."""
        thread = threading.Thread(target=self._thread_main, name="elector", daemon=True)
        thread.start()
        try:
            while True:
                await self._wait_until(leading=True)
                await self._lead_until_lost(lead)
        finally:
            # The workers have stopped by now, and only now may another replica start: released earlier, the Lease would
            # have two leaders. The RuntimeError: the elector has ended by itself, and its loop is closed.
            with suppress(RuntimeError):
                self._elector_loop.call_soon_threadsafe(self._stop.set)
            await asyncio.shield(self._stopped)
            thread.join()

    async def _lead_until_lost(self, lead: Callable[[], Awaitable[None]]) -> None:
        work = asyncio.ensure_future(lead())
        lost = asyncio.ensure_future(self._wait_until(leading=False))
        try:
            await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, lost):
                task.cancel()
            await asyncio.gather(work, lost, return_exceptions=True)
        if not work.cancelled() and (error := work.exception()):
            raise error

    async def _wait_until(self, *, leading: bool) -> None:
        while self.leading is not leading:
            if self._stopped.done():
                raise RuntimeError("the elector has stopped")
            self._changed.clear()
            await self._changed.wait()

    def _thread_main(self) -> None:
        try:
            self._elector_loop.run_until_complete(self._run_elector())
        except Exception:
            _log.exception("the elector failed")
        finally:
            self._elector_loop.close()
            self._worker_loop.call_soon_threadsafe(self._elector_ended)

    async def _run_elector(self) -> None:
        client = self._connect()
        elector = Elector(client, self._key, self._identity)
        tasks = [
            asyncio.ensure_future(work)
            for work in (elector.watch(), self._acquire_and_renew(elector), self._stop.wait())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # If the elector ends by itself, after a bug, workers may still be running: the Lease is left to expire.
            if self._stop.is_set():
                await elector.release()
            await client.close()
            # TLS connections are shut down in the background; a loop that is closed before that leaks their sockets.
            await asyncio.sleep(TLS_CLOSE_SECONDS)

    async def _acquire_and_renew(self, elector: Elector) -> None:
        while True:
            await elector.acquire()
            _log.info("leading", identity=self._identity)
            self._report(leading=True)
            await elector.renew()
            _log.warning("leadership lost", identity=self._identity)
            self._report(leading=False)

    def _report(self, *, leading: bool) -> None:
        self._worker_loop.call_soon_threadsafe(self._set_leading, leading)

    def _set_leading(self, leading: bool) -> None:
        self.leading = leading
        self._changed.set()

    def _elector_ended(self) -> None:
        self._stopped.set_result(None)
        self._set_leading(False)
