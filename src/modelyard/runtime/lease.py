"""Leader election by a Lease: the leaderelection package of client-go, with a watch. `election_thread` runs it.

The leader renews the Lease every 2 s, and stops leading after 10 s without success. Another replica takes over once it
has seen no renewal for 15 s. Times are measured with the monotonic clock, from when a change is observed, so clocks
that differ or jump do no harm. Replicas watch the Lease, and see at once that it was released.
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
    """The times of leader election, by the names of client-go, in seconds."""

    lease_duration: float = 15.0
    """How long other replicas wait after the last renewal that they saw, before they take over."""
    renew_deadline: float = 10.0
    """How long a leader that cannot renew goes on. Shorter than the lease duration, or there could be two leaders."""
    retry_period: float = 2.0
    """How often the leader renews."""


class Elector:
    """One replica in the election. It is also the sink of the watch of the Lease."""

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
        """Watch the Lease until cancelled."""
        target = Target(LEASE, self._key.namespace, field_selector=f"metadata.name={self._key.name}")
        await follow(self._client, target, self)

    async def acquire(self) -> None:
        """Return once we hold the Lease."""
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
        """Renew the Lease, and return when it is lost."""
        while (left := self._renewed + self._timing.renew_deadline - self._monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await asyncio.sleep(self._timing.retry_period)
                    if not await self._try_acquire_or_renew() and self._held_by_other():
                        return
            except TimeoutError:
                return

    async def release(self) -> None:
        """Clear the holder, so that another replica takes over at once. Only after the last worker has stopped."""
        if self._lease is None or self._held_by_other():
            return
        try:
            async with asyncio.timeout(self._timing.retry_period):
                await self._write("")
        except (KubeError, TimeoutError) as error:
            _log.warning("lease not released", error=str(error))

    async def _try_acquire_or_renew(self) -> bool:
        """Write the Lease, unless another replica may still hold it, and return whether we hold it now."""
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
            # Another replica was faster, or the response was lost: read it again, or every further try would conflict.
            self._lease = None
            return False
        # From when it was sent. A process that was frozen since then reads an old response, and another replica may
        # have taken over in between.
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
        """Take a LIST."""
        del revision
        for item in items:
            self.upsert(item)

    def upsert(self, item: Stored) -> None:
        """Take a newer version of the Lease, from the watch or from a response of ours."""
        if self._lease is not None and item.meta.revision <= self._lease.meta.revision:
            return
        self._lease, self._observed_at = item, self._monotonic()
        self._news.set()

    def remove(self, item: Stored) -> None:
        """Take the deletion of the Lease: the next replica that tries creates it again."""
        del item
        self._lease = None
        self._news.set()

    def trouble(self, error: Any) -> None:
        """Log why the watch fails; None: it works again. Without a watch, `acquire` retries by its timer."""
        if error:
            _log.warning("cannot follow the lease", error=str(error))
