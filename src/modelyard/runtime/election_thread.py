"""Runs the elector in a thread of its own.

A busy reconcile must not delay a renewal: the elector has its own event loop and its own connections. It reports to
the workers' loop, and hands the Lease back only when it is told that the last worker has stopped.
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

_log = structlog.get_logger()


class Leadership:
    """Whether we lead, as the workers' loop sees it."""

    def __init__(self, connect: Callable[[], Client], key: Key, identity: str) -> None:
        self._connect, self._key, self._identity = connect, key, identity
        self.leading = False
        self._worker_loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._stopped: asyncio.Future[None] = self._worker_loop.create_future()
        self._elector_loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run `lead` whenever we lead; it is cancelled when leadership is lost. Runs until cancelled."""
        thread = threading.Thread(target=self._thread_main, name="elector", daemon=True)
        thread.start()
        try:
            while True:
                await self._wait_until(leading=True)
                await self._lead_until_lost(lead)
        finally:
            # The workers have stopped by now; only then may somebody else begin.
            with suppress(RuntimeError):  # the elector has ended by itself, and its loop with it
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
            for work in (elector.watch(), self._acquire_and_renew(elector), self._wait_for_stop())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # After a bug of ours workers may still be at it: the Lease is left to run out.
            if self._stop.is_set():
                await elector.release()
            await client.close()
            # TLS connections say goodbye in the background; a loop that ends before they have leaves sockets open.
            await asyncio.sleep(TLS_CLOSE_SECONDS)

    async def _wait_for_stop(self) -> None:
        await self._stop.wait()

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
