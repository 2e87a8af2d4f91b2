"""Read everything that one reconcile depends on into a `Seen`: caches, answers, and Secrets and ConfigMaps by GET.

`controller` calls it at the start of each reconcile. It records the reads in `dependents`, so that changes wake the
object, and tells the poller which checks to repeat. What to read is asked of the kind, in rounds: `kinds/gather.py`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from modelyard.core import names
from modelyard.core.objects import Stored
from modelyard.core.resources import SECRET, Key, Resource
from modelyard.kinds.contract import Every, Named, Owned, Seen
from modelyard.kinds.gather import Gathering
from modelyard.kube.errors import Forbidden, NotFound
from modelyard.runtime.cache import OwnerKey
from modelyard.runtime.compared_secrets import ComparedSecrets
from modelyard.runtime.dependents import Item, matches

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from modelyard.core.checks import Answer, Check
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Kind, Lookup, Object
    from modelyard.kube.client import Client
    from modelyard.runtime.cache import Cache
    from modelyard.runtime.clock import Clock
    from modelyard.runtime.dependents import Dependents


class Poller(Protocol):
    """Repeats the checks of reads, or makes the calls of plans: `net/poller.py`, which the runtime must not import."""

    def look(self, reader: Item, checks: Collection[Check]) -> Mapping[Check, Answer]:
        """Return the answers known so far, and poll exactly these checks for the reader from now on."""

    def known(self, reader: Item) -> Mapping[Check, Answer]:
        """Return the answers known so far to the checks that the reader named last."""

    def forget(self, reader: Item) -> None:
        """Drop the checks that only this reader names."""


class Gatherer:
    """Reads for one object at a time. Only the GET of a Secret or a ConfigMap is awaited."""

    def __init__(
        self,
        client: Client,
        caches: Mapping[Resource, Cache],
        dependents: Dependents,
        checks: Poller,
        calls: Poller,
        clock: Clock,
        policy: Policy,
    ) -> None:
        self._client, self._caches, self._dependents = client, caches, dependents
        self._checks, self._calls, self._clock, self._policy = checks, calls, clock, policy
        salt = secrets.token_hex(16)
        self._compared = ComparedSecrets(clock, lambda secret: hashed(secret, salt))
        self._optional = tuple(cache for resource, cache in caches.items() if resource.optional)

    async def __call__(self, item: Item, kind: Kind, obj: Object[Any]) -> Seen:
        """Return what the reads of an object find, and wake the object when that changes from now on."""
        known = Seen(self._clock.now(), self._policy, unserved=self._unserved(), results=self._calls.known(item))
        reading = Gathering(kind, obj, known)
        recorded = 0
        for read in reading:
            if _is_by_name(read) and recorded < len(reading.reads):
                # Recorded before the GET is awaited: a cached object that was read before it may change meanwhile, and
                # the change would wake only the readers that are recorded.
                self._dependents.extend(item, reading.reads)
                recorded = len(reading.reads)
            try:
                reading.found(read, await self._find(item, obj, read))
            except Forbidden:
                # An object names what it needs in its own namespace. What it reads in another one was named there:
                # raised, a right that is missing there would hold up this object.
                if not (isinstance(read, Named) and read.namespace):
                    raise
                reading.refused(read)
        self._dependents.record(item, reading.reads)
        answers = self._checks.look(item, [asked.check for asked in reading.asked])
        return reading.seen({asked: answers[asked.check] for asked in reading.asked if asked.check in answers})

    def forget(self, item: Item) -> None:
        """Drop the reads, checks and calls of an object that is gone or no longer reconciled here."""
        self._dependents.forget(item)
        self._checks.forget(item)
        self._calls.forget(item)

    async def _find(self, item: Item, obj: Object[Any], read: Lookup) -> dict[Key, Stored]:
        if isinstance(read, Named) and _is_by_name(read):
            return await self._get_live(read, read.key(item.key.namespace), salt=obj.meta.uid)
        cache = self._caches[read.resource]
        if isinstance(read, Owned):
            children = cache.owned(OwnerKey(item.kind, obj.meta.home, names.short(item.key.name)), obj.meta.uid)
            return {key: child for key, child in children.items() if read.includes(child)}
        if isinstance(read, Every):
            labels = read.selector.labels
            candidates = cache.labelled(*labels[0]) if labels else cache.all()
            return {one.meta.key: one for one in candidates if matches(read, one)}
        one = cache.get(read.key(item.key.namespace))
        return {one.meta.key: one} if one else {}

    async def _get_live(self, read: Named, key: Key, salt: str) -> dict[Key, Stored]:
        if read.compared:
            live = await self._compared.get(key, partial(self._get, SECRET))
            return {key: live} if live else {}
        live = await self._get(read.resource, key)
        if read.resource != SECRET:
            return {key: live} if live else {}
        self._compared.renew(key, live)
        return {key: hashed(live, salt)} if live else {}

    async def _get(self, resource: Resource, key: Key) -> Stored | None:
        try:
            return await self._client.get(resource, key)
        except NotFound:
            return None

    def _unserved(self) -> frozenset[Resource]:
        return frozenset(cache.resource for cache in self._optional if not cache.served)


def _is_by_name(read: Lookup) -> bool:
    """Return whether a read takes a GET, because its resource is in no cache."""
    return isinstance(read, Named) and read.resource.by_name


def hashed(secret: Stored, salt: str) -> Stored:
    """Return a Secret whose values are replaced by salted hashes.

    Kinds need to know which keys there are and when a value changes, never the value. The salt is the UID of the
    reader: a hash may end up in an annotation, where unsalted ones could be looked up in a table of common passwords.
    """
    values = {name: _digest(base64.b64decode(value), salt) for name, value in secret.part("data").items() if value}
    return Stored(secret.resource, secret.meta, {"data": msgspec.json.encode(values)})


def _digest(value: bytes, salt: str) -> str:
    return hmac.new(salt.encode(), value, hashlib.sha256).hexdigest()[:16]
