"""Everything that one user sees of a cluster: all objects of our kinds and their pods, followed by watches.

Made for each login, with the credentials of that user, so that the page shows no more than `kubectl` would. Changes are
gathered for a moment and become rows; each browser gets only those that have changed since it was last told. The
counterpart are the shared informers of client-go.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from modelyard.cluster.kind_names import ANSWERING
from modelyard.core import names
from modelyard.core.resources import POD, Key
from modelyard.kinds import ALL
from modelyard.kube.errors import Forbidden, KubeError, NotFound, Unauthorized
from modelyard.kube.watch import Target, follow
from modelyard.page.history import ConditionHistory, LoadMoments
from modelyard.page.links import Index, searches, uses
from modelyard.page.rows import Row, id_of, row, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Resource
    from modelyard.kube.client import Client
    from modelyard.kube.watch import Sink

_GATHER_SECONDS: Final = 0.05
"""Between two updates. A change after a quiet time is told at once, and a rollout of a thousand pods is a few."""
_AGAIN_SECONDS: Final = 10.0
"""Between two tries to follow what failed by a fault of ours, which is likely to stay."""
_FAULT: Final = KubeError(
    0, "Fault", "it may be out of date: following it failed and begins again; see the log of the page"
)
"""What a watch has that ended by a fault of ours."""
_RESOURCES: Final = {kind.resource.kind: kind.resource for kind in ALL}

_log = structlog.get_logger(__name__)


class Update(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a browser is told: rows that are new or changed, and what is gone."""

    rows: list[Row] = []
    gone: list[str] = []
    pods: list[str] = []
    """The instances whose pods have changed."""
    troubles: list[str] | None = None
    """What cannot be followed, and why; None: as before."""
    synced: bool = False
    """Whether everything that can be followed is known."""
    fresh: bool = False
    """Whether this is everything, and replaces what was told before."""


class Browser:
    """One browser that follows: what it has not been told yet."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._rows: set[str] = set()
        self._pods: set[str] = set()
        self._troubles = False
        self._news = asyncio.Event()

    def add(self, rows: Iterable[str] = (), pods: Iterable[str] = (), *, troubles: bool = False) -> None:
        """Take note of what has changed."""
        self._rows.update(rows)
        self._pods.update(pods)
        self._troubles |= troubles
        self._news.set()

    def everything(self) -> Update:
        """Return the first update: all rows."""
        yard = self._yard
        self._rows.clear()
        return Update(list(yard.rows.values()), [], [], yard.troubles(), yard.is_synced, fresh=True)

    async def news(self) -> Update:
        """Wait for the next change, and return all since the last call."""
        await self._news.wait()
        self._news.clear()
        rows, pods, troubles = self._rows, self._pods, self._troubles
        self._rows, self._pods, self._troubles = set(), set(), False
        known = self._yard.rows
        return Update(
            rows=[known[each] for each in rows if each in known],
            gone=[each for each in rows if each not in known],
            pods=sorted(pods),
            troubles=self._yard.troubles() if troubles else None,
            synced=self._yard.is_synced,
        )


class Yard:
    """The objects of our kinds and their pods, as rows, and the browsers that follow them. Made in an event loop."""

    def __init__(
        self,
        client: Client,
        namespace: str = "",
        now: Callable[[], datetime] | None = None,
        again: float = _AGAIN_SECONDS,
    ) -> None:
        self.client, self.namespace, self._again = client, namespace, again
        self.now = now or (lambda: datetime.now(UTC))
        self.rows: dict[str, Row] = {}
        self.conditions, self.loads = ConditionHistory(), LoadMoments()
        self.objects: dict[str, Stored] = {}
        """All objects of our kinds, by id."""
        self.pods: dict[Key, Stored] = {}
        self._index = Index()
        self._browsers: set[Browser] = set()
        self._changed: set[str] = set()
        self._troubles: dict[Resource, KubeError | None] = {}
        self._settling: asyncio.TimerHandle | None = None
        self._settled = 0.0
        """When it last was, by the clock of the event loop."""

    async def run(self) -> NoReturn:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource in (kind.resource for kind in ALL):
                group.create_task(self._follow(Target(resource, self.namespace), _Objects(self, resource)))
            group.create_task(self._follow(Target(POD, self.namespace, names.OURS), _Pods(self)))
        raise AssertionError("watches end by cancellation only")

    async def _follow(self, target: Target, sink: Sink) -> NoReturn:
        """Follow one resource until cancelled. A fault of ours must not end it unseen: old rows would look current."""
        while True:
            try:
                await follow(self.client, target, sink)
            except Exception:
                _log.exception("a watch has failed", resource=target.resource.label)
                sink.trouble(_FAULT)
            await asyncio.sleep(self._again)

    @property
    def is_synced(self) -> bool:
        """Whether each resource is known, or known not to be had."""
        return len(self._troubles) == len(ALL) + 1 and self._settling is None

    @property
    def is_rejected(self) -> bool:
        """Whether the API server does not know the user (any more)."""
        return any(isinstance(error, Unauthorized) for error in self._troubles.values())

    def sees(self, key: str) -> bool:
        """Return whether an object is known, or known not to be there."""
        kind = key.partition("/")[0]
        error = self._troubles.get(_RESOURCES[kind], _FAULT) if kind in _RESOURCES else None
        return key in self.objects or error is None or isinstance(error, NotFound)

    def troubles(self) -> list[str]:
        """Return a line for each cause because of which resources cannot be followed; empty: all can."""
        causes: dict[str, list[str]] = {}
        for resource, error in self._troubles.items():
            if error:
                causes.setdefault(_cause(error, resource), []).append(resource.label)
        return [_line(sorted(labels), cause, len(self._troubles)) for cause, labels in sorted(causes.items())]

    def browser(self) -> Browser:
        """Return a new browser, which is told of every change until `leave`."""
        browser = Browser(self)
        self._browsers.add(browser)
        return browser

    def leave(self, browser: Browser) -> None:
        """Forget a browser."""
        self._browsers.discard(browser)

    def pods_of(self, instance: str) -> list[Stored]:
        """Return the pods of an instance, the newest first."""
        found = [pod for pod in self.pods.values() if instance_of_pod(pod) == instance]
        return sorted(found, key=lambda pod: pod.meta.creation_timestamp or "", reverse=True)

    def took(self, resource: Resource, error: KubeError | None) -> None:
        """Take note that a resource is known by now, or why it is not."""
        was_synced = self.is_synced
        before = self._troubles.get(resource)
        self._troubles[resource] = error
        if before is not error or not was_synced:
            self._tell(troubles=True)

    def store(self, item: Stored) -> None:
        """Take a new or changed object."""
        key = id_of(item)
        self.objects[key] = item
        self._index.add(item)
        self.conditions.observe(item, self.now())
        self._mark(key)

    def drop(self, item: Stored) -> None:
        """Forget an object that is gone."""
        key = id_of(item)
        if self.objects.pop(key, None):
            self._index.remove(item)
            self.conditions.forget(item.meta.uid)
            self._mark(key)

    def pod_changed(self, pod: Stored) -> None:
        """Tell the browsers that a pod has changed."""
        self._tell(pods=[instance_of_pod(pod)])

    def _mark(self, key: str) -> None:
        self._changed.add(key)
        if self._settling is None:
            self._settling = asyncio.get_running_loop().call_at(self._settled + _GATHER_SECONDS, self._settle)

    def _settle(self) -> None:
        """Make the rows of what has changed, and tell the browsers of those that differ."""
        self._settling, self._settled = None, asyncio.get_running_loop().time()
        changed, self._changed = self._changed, set()
        # What is found by labels or by address may have changed with any object.
        changed.update(key for key, item in self.objects.items() if searches(item))
        self._tell([key for key in changed if self._renew(key)])

    def _renew(self, key: str) -> bool:
        """Make the row of an object again, and return whether it differs."""
        item, before = self.objects.get(key), self.rows.get(key)
        if item is None:
            return self.rows.pop(key, None) is not None
        self.rows[key] = made = self._row(item)
        return made != before

    def _row(self, item: Stored) -> Row:
        try:
            return row(item, uses(item, self._index), can_answer=item.resource.kind in ANSWERING)
        except Exception:
            # Definitions of others allow what ours refuse. One such object must not keep all others from being shown.
            _log.exception("an object cannot be shown", object=id_of(item))
            return unreadable(item)

    def _tell(self, rows: Iterable[str] = (), pods: Iterable[str] = (), *, troubles: bool = False) -> None:
        rows, pods = list(rows), list(pods)
        if rows or pods or troubles:
            for browser in self._browsers:
                browser.add(rows, pods, troubles=troubles)


class _Objects:
    """The sink of the watch of one kind."""

    def __init__(self, yard: Yard, resource: Resource) -> None:
        self._yard, self._resource = yard, resource
        self.upsert, self.remove = yard.store, yard.drop

    def replace(self, items: list[Stored], _revision: int) -> None:
        """Take the result of a LIST: these are all objects of the kind."""
        found = {id_of(item) for item in items}
        for key, item in list(self._yard.objects.items()):
            if item.resource == self._resource and key not in found:
                self._yard.drop(item)
        for item in items:
            self._yard.store(item)
        self._yard.took(self._resource, None)

    def trouble(self, error: KubeError | None) -> None:
        """Take note why the kind cannot be followed."""
        self._yard.took(self._resource, error)


class _Pods:
    """The sink of the watch of pods."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard

    def replace(self, items: list[Stored], _revision: int) -> None:
        """Take the result of a LIST: these are all pods."""
        found = {item.meta.key for item in items}
        for key in [key for key in self._yard.pods if key not in found]:
            self.remove(self._yard.pods[key])
        for item in items:
            self.upsert(item)
        self._yard.took(POD, None)

    def upsert(self, item: Stored) -> None:
        """Take a new or changed pod."""
        self._yard.pods[item.meta.key] = item
        self._yard.loads.observe(item, self._yard.now())
        self._yard.pod_changed(item)

    def remove(self, item: Stored) -> None:
        """Forget a pod."""
        self._yard.pods.pop(item.meta.key, None)
        self._yard.loads.forget(item.meta.uid)
        self._yard.pod_changed(item)

    def trouble(self, error: KubeError | None) -> None:
        """Take note why pods cannot be followed."""
        self._yard.took(POD, error)


def instance_of_pod(pod: Stored) -> str:
    """Return the instance that a pod belongs to, as its labels name it."""
    return f"{pod.meta.label(names.KIND_LABEL)}/{pod.meta.namespace}/{pod.meta.label(names.INSTANCE_LABEL)}"


def instance_of(item: Stored) -> str:
    """Return an object as the labels of its pods name it."""
    return f"{item.resource.kind.lower()}/{item.meta.namespace}/{names.short(item.meta.name)}"


def _cause(error: KubeError, resource: Resource) -> str:
    if isinstance(error, NotFound):
        return "not served by the cluster; install Modelyard with `modelyard install`"
    if isinstance(error, Forbidden):
        return "you lack the right to list and watch; ask for it, or name a namespace with -n"
    if isinstance(error, Unauthorized):
        return "the cluster does not accept your credentials; log in again, and if this stays, start the page anew"
    # Without what was asked for, which is different for each resource, so that one cause is one line.
    return re.sub(rf"^\w+ {re.escape(resource.label)}: ", "", str(error))


def _line(labels: list[str], cause: str, known: int) -> str:
    """Return what cannot be followed and why. When nothing can, one line must do: the names of all kinds hide it."""
    return f"{'everything' if len(labels) == known else ', '.join(labels)}: {cause}"
