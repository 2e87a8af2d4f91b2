"""Leader election by a Lease.

Whoever holds the Lease renews it every 2 s; whoever fails to for 10 s stops leading; others take over once they have
seen no renewal for 15 s. Times are measured by the monotonic clock from the moment a change is seen, so clocks that
differ or jump do not matter. A candidate watches the Lease: a release is noticed at once.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog
from msgspec import Struct

from modelyard.core.resources import LEASE, Key
from modelyard.core.times import micro_timestamp
from modelyard.kube.errors import KubeError, NotFound
from modelyard.kube.watch import Target, follow

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.core.objects import Json, Stored
    from modelyard.kube.client import Client

_log = structlog.get_logger()


class LeaseTiming(Struct, frozen=True):
    """How long leadership lasts."""

    lease_duration: float = 15.0
    """Nobody takes over within this time of the last renewal."""
    renew_deadline: float = 10.0
    """A leader that could not renew for this long stops."""
    retry_period: float = 2.0
    """How often it is renewed."""


class Elector:
    """One candidate."""

    def __init__(
        self,
        client: Client,
        key: Key,
        identity: str,
        timing: LeaseTiming | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._key, self._identity = client, key, identity
        self._timing, self._monotonic = timing or LeaseTiming(), monotonic
        self._lease: Stored | None = None
        self._observed_at = self._renewed = monotonic()
        self._news = asyncio.Event()

    async def watch(self) -> None:
        """Follow the Lease until cancelled."""
        target = Target(LEASE, self._key.namespace, field_selector=f"metadata.name={self._key.name}")
        await follow(self._client, target, self)

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        while not await self._try_acquire_or_renew():
            self._news.clear()
            period, left = (
                self._timing.retry_period,
                self._observed_at + self._timing.lease_duration - self._monotonic(),
            )
            try:
                async with asyncio.timeout(max(period / 4, left) if self._held_by_other() else period / 2):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def renew(self) -> None:
        """Renew the Lease; return when it is lost."""
        while (left := self._renewed + self._timing.renew_deadline - self._monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await asyncio.sleep(self._timing.retry_period)
                    if not await self._try_acquire_or_renew() and self._held_by_other():
                        return
            except TimeoutError:
                return

    async def release(self) -> None:
        """Let others take over at once. Called after the last worker has stopped."""
        if self._lease is None or self._held_by_other():
            return
        try:
            async with asyncio.timeout(self._timing.retry_period):
                await self._write("")
        except (KubeError, TimeoutError) as error:
            _log.warning("lease not released", error=str(error))

    async def _try_acquire_or_renew(self) -> bool:
        """Take or renew the Lease if nobody else may hold it; False: not now."""
        try:
            if self._lease is None:
                self.upsert(await self._client.get(LEASE, self._key))
        except NotFound:
            pass
        except KubeError as error:
            _log.warning("lease not read", error=str(error))
            return False
        if self._held_by_other() and self._monotonic() < self._observed_at + self._timing.lease_duration:
            return False
        asked = self._monotonic()
        try:
            await self._write(self._identity)
        except KubeError as error:
            _log.info("lease not written", error=str(error))
            self._lease = None  # somebody was faster, or the answer was lost: look again
            return False
        # A process that was frozen reads an old answer: it counts from when it was asked for, as for everybody else.
        self._renewed = asked
        return self._monotonic() < asked + self._timing.renew_deadline

    async def _write(self, holder: str) -> None:
        before = self._lease.spec if self._lease else {}
        now = micro_timestamp(datetime.now(UTC))
        same = before.get("holderIdentity") == holder
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(self._timing.lease_duration) if holder else 1,
            "acquireTime": before.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions", 0)) + (0 if same or not holder else 1),
        }
        meta: Json = {"namespace": self._key.namespace, "name": self._key.name}
        body: Json = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": spec}
        if self._lease is None:
            self.upsert(await self._client.create(LEASE, body))
            return
        meta |= {"resourceVersion": self._lease.meta.resource_version, "uid": self._lease.meta.uid}
        self.upsert(await self._client.replace(LEASE, self._key, body))

    def _held_by_other(self) -> bool:
        holder = self._lease.spec.get("holderIdentity", "") if self._lease else ""
        return bool(holder) and holder != self._identity

    def replace(self, items: list[Stored], revision: int) -> None:
        """Take what the watch lists."""
        del revision
        for item in items:
            self.upsert(item)

    def upsert(self, item: Stored) -> None:
        """Take a newer version of the Lease, from the watch or from an answer."""
        if self._lease is not None and item.meta.revision <= self._lease.meta.revision:
            return
        self._lease, self._observed_at = item, self._monotonic()
        self._news.set()

    def remove(self, item: Stored) -> None:
        """Take the news that somebody deleted the Lease."""
        del item
        self._lease = None
        self._news.set()

    def trouble(self, error: Any) -> None:
        """Leave trouble to the log of the watch: without news the timer decides."""
        if error:
            _log.warning("cannot follow the lease", error=str(error))
