"""A sink stays equal to the server, whatever happens to the streams."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.core.resources import POD, Resource
from modelyard.kube import codec
from modelyard.kube.errors import Forbidden, KubeError, NotFound, TooManyRequests, Unavailable
from modelyard.kube.watch import Target, Timing, follow
from tests.kube.scripted import (
    Asked,
    Server,
    answer,
    bookmark,
    client_of,
    error,
    event,
    listing,
    pod,
    serving,
    silence,
    status,
    stream,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from modelyard.core.objects import Stored

PODS = Target(POD, "a", "app=x", "spec.nodeName=n")


class Recorder:
    """A sink that remembers what it was told."""

    def __init__(self) -> None:
        self.items: dict[str, int] = {}
        self.calls: list[str] = []
        self.troubles: list[KubeError | None] = []
        self._news = asyncio.Event()

    def replace(self, items: list[Stored], revision: int) -> None:
        self.items = {item.meta.name: item.meta.revision for item in items}
        self._heard(f"replace {' '.join(sorted(self.items))} @{revision}")

    def upsert(self, item: Stored) -> None:
        self.items[item.meta.name] = item.meta.revision
        self._heard(f"upsert {item.meta.name} @{item.meta.revision}")

    def remove(self, item: Stored) -> None:
        self.items.pop(item.meta.name, None)
        self._heard(f"remove {item.meta.name} @{item.meta.revision}")

    def trouble(self, error: KubeError | None) -> None:
        self.troubles.append(error)
        self._heard(f"trouble {type(error).__name__}" if error else "fine")

    def restarted(self, _: Resource) -> None:
        self._heard("restarted")

    def _heard(self, call: str) -> None:
        self.calls.append(call)
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def hears(self, call: str, times: int = 1) -> None:
        await self.until(lambda: self.calls.count(call) >= times)


class Time:
    """Time that passes only by sleeping, without waiting for it. `stop_after` holds the follower there."""

    def __init__(self, stop_after: int = 10_000) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self._stop_after = stop_after
        self.stopped = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if len(self.waits) >= self._stop_after:
            self.stopped.set()
            await asyncio.Event().wait()
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def timing(self, **limits: float) -> Timing:
        return Timing(sleep=self.sleep, clock=lambda: self.now, chance=lambda: 0.5, **limits)


class Follow:
    """A follower at work on a scripted server."""

    def __init__(self, server: Server, sink: Recorder, time: Time) -> None:
        self.server, self.sink, self.time = server, sink, time
        self.restarts: list[Resource] = []

    @property
    def asked(self) -> list[str]:
        """What was asked of the server, in short."""
        return [_short(asked) for asked in self.server.asked]


def _short(asked: Asked) -> str:
    if "watch" not in asked.query:
        return f"list {asked.query['continue']}" if "continue" in asked.query else "list"
    return "all" if "sendInitialEvents" in asked.query else f"watch {asked.query['resourceVersion']}"


@asynccontextmanager
async def following(*script: Any, time: Time | None = None, **limits: float) -> AsyncIterator[Follow]:
    time = time or Time()
    async with serving(*script) as server, client_of(server) as client:
        running = Follow(server, Recorder(), time)
        task = asyncio.create_task(
            follow(client, PODS, running.sink, restarted=running.restarts.append, timing=time.timing(**limits))
        )
        try:
            yield running
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def initial(*items: Any, revision: int) -> tuple[Any, ...]:
    return (*(event("ADDED", item) for item in items), bookmark(revision, initial=True))


ONE, TWO = pod("one", 3), pod("two", 4)


async def test_the_first_state_comes_over_the_stream() -> None:
    async with following(stream(*initial(ONE, TWO, revision=10))) as running:
        await running.sink.hears("replace one two @10")
    query = running.server.asked[0].query
    assert running.server.asked[0].path == "/api/v1/namespaces/a/pods"
    assert 300 <= int(query.pop("timeoutSeconds")) <= 600
    assert query == {
        "watch": "1",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "labelSelector": "app=x",
        "fieldSelector": "spec.nodeName=n",
    }
    assert running.sink.troubles == []


async def test_what_changes_while_the_first_state_is_sent_is_part_of_it() -> None:
    changes = (
        event("ADDED", ONE),
        event("ADDED", TWO),
        event("MODIFIED", pod("one", 8)),
        event("DELETED", pod("two", 9)),
    )
    async with following(stream(*changes, bookmark(9), bookmark(10, initial=True))) as running:
        await running.sink.hears("replace one @10")
    assert running.sink.items == {"one": 8}
    assert running.sink.calls == ["replace one @10"]


async def test_changes_are_passed_on_in_order() -> None:
    changes = (event("ADDED", pod("two", 11)), event("MODIFIED", pod("one", 12)), event("DELETED", pod("two", 13)))
    async with following(stream(*initial(ONE, revision=10), *changes)) as running:
        await running.sink.hears("remove two @13")
    assert running.sink.calls == ["replace one @10", "upsert two @11", "upsert one @12", "remove two @13"]


@pytest.mark.parametrize("then", ["end", "cut"])
async def test_a_stream_that_ends_is_resumed_where_it_ended(then: str) -> None:
    first = stream(*initial(ONE, revision=10), event("MODIFIED", pod("one", 12)), then=then)
    second = stream(event("MODIFIED", pod("one", 14)), bookmark(20), then=then)
    async with following(first, second, stream(event("ADDED", pod("two", 21)))) as running:
        await running.sink.hears("upsert two @21")
    assert running.asked == ["all", "watch 12", "watch 20"]
    assert running.sink.troubles == []
    assert running.restarts == [POD, POD]


async def test_a_stream_that_falls_silent_is_resumed() -> None:
    script = (stream(*initial(ONE, revision=10)), stream(event("ADDED", pod("two", 11))))
    async with following(*script, idle=0.3) as running:
        await running.sink.hears("upsert two @11")
    assert running.asked[:2] == ["all", "watch 10"]


@pytest.mark.parametrize("code", [400, 422])
async def test_a_server_that_refuses_to_stream_everything_is_listed(code: int) -> None:
    script = (
        status(code, "Invalid", "sendInitialEvents is forbidden"),
        listing(ONE, revision=10, token="more"),
        listing(TWO, revision=10),
        stream(event("DELETED", pod("two", 11))),
    )
    async with following(*script) as running:
        await running.sink.hears("remove two @11")
    assert running.asked == ["all", "list", "list more", "watch 10"]
    assert running.sink.calls == ["replace one two @10", "remove two @11"]
    assert running.server.asked[1].query["limit"] == "500"
    assert running.server.asked[1].query["labelSelector"] == "app=x"
    assert "resourceVersion" not in running.server.asked[1].query


async def test_a_server_that_answers_with_an_error_event_is_listed() -> None:
    refusal = stream(event("ADDED", ONE), error(500, "InternalError", "etcd is too old"))
    async with following(refusal, listing(ONE, TWO, revision=10), stream()) as running:
        await running.sink.hears("replace one two @10")
    assert running.sink.troubles == []


async def test_a_server_that_never_says_that_it_sent_everything_is_listed() -> None:
    script = (stream(event("ADDED", ONE)), listing(ONE, TWO, revision=10), stream())
    async with following(*script, initial=0.2) as running:
        await running.sink.hears("replace one two @10")
    assert running.asked[:2] == ["all", "list"]


async def test_a_server_that_had_to_be_listed_once_is_always_listed() -> None:
    script = (
        status(400),
        listing(ONE, revision=10),
        status(410, "Expired"),
        listing(TWO, revision=20),
        stream(event("ADDED", pod("three", 21))),
    )
    async with following(*script) as running:
        await running.sink.hears("upsert three @21")
    assert running.asked == ["all", "list", "watch 10", "list", "watch 20"]
    assert running.sink.items == {"two": 4, "three": 21}


async def test_a_list_whose_pages_are_forgotten_starts_over() -> None:
    script = (
        status(400),
        listing(ONE, revision=10, token="old"),
        status(410, "Expired"),
        listing(TWO, revision=20, token="new"),
        listing(pod("three", 5), revision=20),
        stream(),
    )
    async with following(*script) as running:
        await running.sink.hears("replace three two @20")
    assert running.asked[:5] == ["all", "list", "list old", "list", "list new"]
    assert running.sink.calls == ["replace three two @20"]


@pytest.mark.parametrize("forgotten", [status(410, "Expired"), stream(error(410, "Expired"))])
async def test_a_forgotten_revision_means_reading_everything_again(forgotten: Any) -> None:
    script = (stream(*initial(ONE, revision=10), then="end"), forgotten, stream(*initial(TWO, revision=30)))
    async with following(*script) as running:
        await running.sink.hears("replace two @30")
    assert running.asked == ["all", "watch 10", "all"]
    assert running.sink.items == {"two": 4}
    assert running.sink.troubles == []


async def test_a_server_that_asks_us_to_wait_is_obeyed() -> None:
    wait = status(429, "TooManyRequests", "storage is (re)initializing", headers={"Retry-After": "5"})
    async with following(wait, wait, stream(*initial(ONE, revision=10))) as running:
        await running.sink.hears("fine")
    assert all(5 <= seconds <= 7 for seconds in running.time.waits)
    assert running.sink.calls == ["trouble TooManyRequests", "replace one @10", "fine"]
    assert isinstance(running.sink.troubles[0], TooManyRequests)


async def test_an_absurd_wait_is_not_obeyed() -> None:
    wait = status(503, "ServiceUnavailable", headers={"Retry-After": "86400"})
    async with following(wait, stream(*initial(ONE, revision=10))) as running:
        await running.sink.hears("fine")
    assert running.time.waits[0] <= 75


async def test_a_missing_resource_is_waited_for() -> None:
    time = Time(stop_after=12)
    async with following(status(404, "NotFound"), time=time) as running:
        await asyncio.wait_for(time.stopped.wait(), 20)
    assert running.sink.calls == ["trouble NotFound"]
    assert isinstance(running.sink.troubles[0], NotFound)
    assert time.waits[0] <= 0.2
    assert time.waits == sorted(time.waits)
    assert 15 <= time.waits[-1] <= 30


async def test_a_resource_that_comes_back_is_read_anew() -> None:
    script = (stream(*initial(ONE, revision=10), then="end"), status(404), stream(*initial(TWO, revision=30)))
    async with following(*script) as running:
        await running.sink.hears("fine")
    assert running.asked == ["all", "watch 10", "all"]
    assert running.sink.calls == ["replace one @10", "trouble NotFound", "replace two @30", "fine"]


async def test_a_missing_rule_is_reported_once_and_its_end_too() -> None:
    said = 'pods is forbidden: User "u" cannot watch resource "pods"'
    refused = status(403, "Forbidden", said)
    async with following(refused, refused, refused, stream(*initial(ONE, revision=10))) as running:
        await running.sink.hears("fine")
    assert running.sink.calls == ["trouble Forbidden", "replace one @10", "fine"]
    trouble = running.sink.troubles[0]
    assert isinstance(trouble, Forbidden)
    assert (trouble.verb, trouble.resource) == ("watch", "pods")


async def test_another_trouble_is_news() -> None:
    script = (status(403, "Forbidden"), status(503), status(503), stream(*initial(ONE, revision=10)))
    async with following(*script) as running:
        await running.sink.hears("fine")
    assert running.sink.calls == ["trouble Forbidden", "trouble Unavailable", "replace one @10", "fine"]


async def test_a_server_that_is_away_is_tried_often() -> None:
    async with serving(silence) as gone:
        pass
    time, sink = Time(stop_after=12), Recorder()
    async with client_of(gone) as client:
        task = asyncio.create_task(follow(client, PODS, sink, timing=time.timing()))
        await asyncio.wait_for(time.stopped.wait(), 20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert sink.calls == ["trouble Unavailable"]
    assert max(time.waits) <= 5


async def test_streams_that_close_at_once_are_opened_about_once_a_second() -> None:
    time = Time(stop_after=6)
    async with following(stream(*initial(ONE, revision=10), then="end"), stream(then="end"), time=time) as running:
        await asyncio.wait_for(time.stopped.wait(), 20)
    assert time.waits[0] == 0
    assert all(1 <= seconds <= 2 for seconds in time.waits[1:])
    assert running.asked == ["all"] + ["watch 10"] * 6
    assert running.sink.calls == ["replace one @10"]


async def test_a_first_state_that_breaks_off_is_not_taken_for_all() -> None:
    half = stream(event("ADDED", ONE), then="cut")
    async with following(half, stream(*initial(ONE, TWO, revision=10))) as running:
        await running.sink.hears("fine")
    assert running.sink.calls == ["trouble Unavailable", "replace one two @10", "fine"]
    assert running.asked == ["all", "all"]


@pytest.mark.parametrize(
    "junk",
    [
        b'{"type":"MODIFIED","object":{"metadata":{"name":"on\n',
        b"\x00\xff\xfe\n",
        b"\n",
        b"[]\n",
        b'{"type":"MODIFIED","object":{}}\n',
        b'{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"x"}}}\n',
        b"[" * 50_000 + b"\n",
    ],
)
async def test_junk_restarts_the_stream_and_loses_nothing(junk: bytes) -> None:
    broken = stream(
        *initial(ONE, revision=10), event("MODIFIED", pod("one", 11)), junk, event("ADDED", pod("lost", 13))
    )
    again = stream(event("ADDED", pod("two", 12)), event("ADDED", pod("lost", 13)))
    async with following(broken, again) as running:
        await running.sink.hears("upsert lost @13")
    assert running.asked == ["all", "watch 11"]
    assert running.sink.items == {"one": 11, "two": 12, "lost": 13}


async def test_a_line_that_breaks_off_is_read_again() -> None:
    broken = stream(*initial(ONE, revision=10), b'{"type":"MODIFIED","obj', then="end")
    async with following(broken, stream(event("MODIFIED", pod("one", 11)))) as running:
        await running.sink.hears("upsert one @11")
    assert running.asked == ["all", "watch 10"]


async def test_a_server_that_cannot_resume_is_read_anew() -> None:
    failing = status(504, "Timeout", "Too large resource version")
    script = (stream(*initial(ONE, revision=10), then="end"), *[failing] * 5, stream(*initial(TWO, revision=5)))
    async with following(*script) as running:
        await running.sink.hears("fine")
    assert running.asked == ["all", *["watch 10"] * 5, "all"]
    assert running.sink.items == {"two": 4}


async def test_a_server_that_was_put_back_to_an_old_state_is_read_anew() -> None:
    script = (
        stream(*initial(ONE, TWO, revision=10), bookmark(900), then="cut"),
        stream(*initial(pod("one", 2), revision=40), event("ADDED", pod("three", 41))),
    )
    async with following(*script) as running:
        running.server.revision = 40
        await running.sink.hears("upsert three @41")
    assert running.asked == ["all", "all"]
    assert running.sink.items == {"one": 2, "three": 41}
    assert running.sink.troubles == []


async def test_a_big_object_is_taken() -> None:
    big = pod("big", 11, spec={"text": "x" * 1_400_000})
    async with following(stream(*initial(ONE, revision=10), event("ADDED", big))) as running:
        await running.sink.hears("upsert big @11")


async def test_a_failure_of_the_sink_is_not_hidden() -> None:
    class Broken(Recorder):
        def replace(self, items: list[Stored], revision: int) -> None:
            raise TimeoutError("a bug")

    async with serving(stream(*initial(ONE, revision=10))) as server, client_of(server) as client:
        with pytest.raises(TimeoutError, match="a bug"):
            await asyncio.wait_for(follow(client, PODS, Broken()), 20)


async def test_the_defaults_work_in_real_time() -> None:
    sink = Recorder()
    async with serving(status(404), stream(*initial(ONE, revision=10))) as server, client_of(server) as client:
        task = asyncio.create_task(follow(client, Target(POD), sink))
        await sink.hears("fine")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert sink.items == {"one": 3}


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_whatever_a_line_holds_it_is_an_event_or_an_error_of_the_server(line: bytes) -> None:
    with suppress(Unavailable):
        codec.event(POD, line)


async def test_an_answer_that_is_no_stream_is_trouble() -> None:
    async with following(answer({"kind": "PodList"}), stream(*initial(ONE, revision=10))) as running:
        await running.sink.hears("fine")
    assert running.sink.calls == ["trouble Unavailable", "replace one @10", "fine"]
