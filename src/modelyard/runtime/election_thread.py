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

GOODBYE: Final = 0.1

_log = structlog.get_logger()


class Leadership:
    """Whether we lead, as the workers' loop sees it."""

    def __init__(self, connect: Callable[[], Client], key: Key, identity: str) -> None:
        self._connect, self._key, self._identity = connect, key, identity
        self.leading = False
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._own_loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run `lead` whenever we lead; it is cancelled when leadership is lost. Runs until cancelled."""
        thread = threading.Thread(target=self._elect, name="elector", daemon=True)
        thread.start()
        try:
            while True:
                await self._until(leading=True)
                await self._term(lead)
        finally:
            # The workers have stopped by now; only then may somebody else begin.
            with suppress(RuntimeError):  # the elector has ended by itself, and its loop with it
                self._own_loop.call_soon_threadsafe(self._stop.set)
            await asyncio.shield(self._stopped)
            thread.join()

    async def _term(self, lead: Callable[[], Awaitable[None]]) -> None:
        work = asyncio.ensure_future(lead())
        lost = asyncio.ensure_future(self._until(leading=False))
        try:
            await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, lost):
                task.cancel()
            await asyncio.gather(work, lost, return_exceptions=True)
        if not work.cancelled() and (error := work.exception()):
            raise error

    async def _until(self, *, leading: bool) -> None:
        while self.leading is not leading:
            if self._stopped.done():
                raise RuntimeError("the elector has stopped")
            self._changed.clear()
            await self._changed.wait()

    def _elect(self) -> None:
        try:
            self._own_loop.run_until_complete(self._candidate())
        except Exception:
            _log.exception("the elector failed")
        finally:
            self._own_loop.close()
            self._loop.call_soon_threadsafe(self._ended)

    async def _candidate(self) -> None:
        client = self._connect()
        elector = Elector(client, self._key, self._identity)
        tasks = [asyncio.ensure_future(work) for work in (elector.watch(), self._terms(elector), self._until_stopped())]
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
            await asyncio.sleep(GOODBYE)

    async def _until_stopped(self) -> None:
        await self._stop.wait()

    async def _terms(self, elector: Elector) -> None:
        while True:
            await elector.campaign()
            _log.info("leading", identity=self._identity)
            self._report(leading=True)
            await elector.hold()
            _log.warning("leadership lost", identity=self._identity)
            self._report(leading=False)

    def _report(self, *, leading: bool) -> None:
        self._loop.call_soon_threadsafe(self._set, leading)

    def _set(self, leading: bool) -> None:
        self.leading = leading
        self._changed.set()

    def _ended(self) -> None:
        self._stopped.set_result(None)
        self._set(False)
