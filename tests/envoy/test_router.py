"""A canary's router: the real Envoy between two real servers."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest
from yarl import URL

from modelyard.kinds.shared.envoy import Address, Proxy
from modelyard.kinds.shared.envoy_drain import QUIET_SECONDS
from modelyard.kinds.shared.envoy_router import TRACK_HEADER, Loaded, loaded, router_bootstrap, router_files
from modelyard.kinds.shared.envoy_routes import DRAINED_PATH, POD_HEADER, STATS_PATH, VERSION_PATH
from tests.envoy.proxies import POD, Engine, Envoy, running_engines, running_envoy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import ClientSession

CHAT = "/v1/chat/completions"


@pytest.fixture
async def engines() -> AsyncIterator[list[Engine]]:
    async with running_engines("primary", "canary") as running:
        yield running


@pytest.fixture
async def router(engines: list[Engine], tmp_path: Path) -> AsyncIterator[Envoy]:
    tracks = {engine.name: engine.address for engine in engines}
    files = router_files({"primary": 80, "canary": 20})
    async with running_envoy(tmp_path, files, partial(router_bootstrap, tracks=tracks)) as running:
        yield running


async def track(session: ClientSession, router: Envoy) -> tuple[int, str]:
    """Ask once; return the status, and which track answered."""
    async with session.post(router.url + CHAT, json={"model": "any"}) as response:
        name = response.headers[TRACK_HEADER]
        answer = json.loads(await response.read())
        assert response.status != 200 or answer["engine"] == name
        return response.status, name


async def tracks(session: ClientSession, router: Envoy, count: int, parallel: int = 20) -> Counter[tuple[int, str]]:
    """Ask many times; return how often which track answered with which status."""
    found: Counter[tuple[int, str]] = Counter()

    async def some() -> None:
        for _ in range(count // parallel):
            found[await track(session, router)] += 1

    await asyncio.gather(*(some() for _ in range(parallel)))
    return found


async def test_a_canary_of_20_percent_gets_20_percent(router: Envoy, session: ClientSession) -> None:
    found = await tracks(session, router, 3000)
    assert found.keys() == {(200, "primary"), (200, "canary")}
    assert found.total() == 3000
    # Chance alone misses these three points once in 25,000 runs.
    assert 0.17 <= found[200, "canary"] / 3000 <= 0.23


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"primary": 100, "canary": 0}, "primary"),
        ({"primary": 0, "canary": 100}, "canary"),
        ({"primary": 0, "canary": 0}, "primary"),
        ({"primary": 0}, "primary"),
    ],
)
async def test_a_track_without_weight_gets_nothing_and_some_track_gets_all(
    router: Envoy, session: ClientSession, weights: dict[str, int], expected: str
) -> None:
    await router.load(session, router_files(weights))
    assert await tracks(session, router, 60) == {(200, expected): 60}


async def test_the_router_tells_what_it_has_loaded(router: Envoy, session: ClientSession) -> None:
    files = router_files({"primary": 40, "canary": 60})
    await router.load(session, files)
    async with session.get(router.url + VERSION_PATH) as response:
        assert loaded(await response.read()) == Loaded(files.version, {"primary": 40, "canary": 60})
        assert response.headers[POD_HEADER] == POD


async def test_weights_change_under_streaming_clients_and_nothing_is_lost(
    router: Envoy, session: ClientSession
) -> None:
    done = asyncio.Event()
    answers: Counter[str] = Counter()

    async def client() -> None:
        while not done.is_set():
            body = {"model": "any", "stream": True, "chunks": 5, "pause": 0.01}
            async with session.post(router.url + CHAT, json=body) as response:
                assert response.status == 200
                name, text = response.headers[TRACK_HEADER], await response.text()
            assert text.count(name) == 10, text
            assert text.endswith("data: [DONE]\n\n")
            answers[name] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(client())
        for weight in (0, 20, 60, 100, 60, 0, 100, 20):
            await router.load(session, router_files({"primary": 100 - weight, "canary": weight}))
            before = answers.total()
            async with asyncio.timeout(60):
                while answers.total() < before + 100:
                    await asyncio.sleep(0.01)
        done.set()
    assert answers["primary"]
    assert answers["canary"]


async def test_a_broken_file_leaves_the_weights_as_they_were(router: Envoy, session: ClientSession) -> None:
    before = await router.version(session)
    router.write({"routes.json": '{"resources": [{"@type": "nonsense"}]}'})
    await router.until_figure(session, "http.traffic.rds.traffic.update_(failure|rejected)")
    assert await router.version(session) == before
    await router.load(session, router_files({"primary": 0, "canary": 100}))
    assert await tracks(session, router, 20) == {(200, "canary"): 20}


async def test_a_canary_that_cannot_be_reached_fails_no_request(
    router: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    await engines[1].stop()
    assert await tracks(session, router, 200) == {(200, "primary"): 200}


async def test_a_large_request_is_tried_again_too(router: Envoy, session: ClientSession, engines: list[Engine]) -> None:
    await router.load(session, router_files({"primary": 50, "canary": 50}))
    await engines[1].stop()
    image = json.dumps({"image": "a" * 5_000_000}).encode()
    for _ in range(10):
        async with session.post(router.url + CHAT, data=io.BytesIO(image)) as response:
            assert response.status == 200, await response.text()
    assert await router.figure(session, "cluster.canary.upstream_cx_connect_fail")


async def test_with_no_server_left_the_router_says_so_at_once(
    router: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    for engine in engines:
        await engine.stop()
    async with asyncio.timeout(60), session.post(router.url + CHAT, json={}) as response:
        assert response.status == 503
        assert json.loads(await response.read())["error"]["code"] == "server_unavailable"


@pytest.mark.parametrize("status", [500, 502, 503, 429])
async def test_an_engine_s_own_error_is_passed_on_and_never_tried_again(
    router: Envoy, session: ClientSession, engines: list[Engine], status: int
) -> None:
    tempting = {"x-envoy-retry-on": "5xx,retriable-4xx", "x-envoy-max-retries": "3"}
    async with session.post(f"{router.url}/status/{status}", headers=tempting) as response:
        assert response.status == status
        assert await response.text() == response.headers[TRACK_HEADER]
    assert sum(len(engine.requests) for engine in engines) == 1


async def test_the_engine_sees_the_request_as_it_was_sent(
    router: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    await router.load(session, router_files({"primary": 100}))
    path = "/v1/../a//b%2Fc?x=%20y&x="
    sent = {"Authorization": "Bearer secret", "X-Custom": "1"}
    async with session.get(URL(router.url + path, encoded=True), headers=sent) as response:
        assert response.status == 200
        assert not [name for name in response.headers if name.lower().startswith("x-envoy")]
    request = engines[0].requests[-1]
    assert request.raw_path == path
    assert {name: request.headers[name] for name in sent} == sent
    assert request.headers["Host"] == router.url.removeprefix("http://")


async def test_each_request_has_a_connection_of_its_own(
    router: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    await tracks(session, router, 40)
    callers = [caller for engine in engines for caller in engine.callers]
    assert len(callers) == len(set(callers)) == 40


async def test_a_client_may_speak_http_1_0(router: Envoy) -> None:
    listen = router.proxy.listen
    reader, writer = await asyncio.open_connection(listen.host, listen.port)
    writer.write(b"GET /v1/models HTTP/1.0\r\nHost: router\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert b" 200 OK\r\n" in answer


async def test_a_websocket_passes(router: Envoy, session: ClientSession) -> None:
    async with session.ws_connect(f"{router.url}/socket") as socket:
        await socket.send_str("hello")
        assert (await socket.receive_str()).endswith(": hello")


async def test_only_figures_of_the_admin_interface_are_reached(router: Envoy, session: ClientSession) -> None:
    async with session.get(router.url + STATS_PATH, params={"filter": "upstream_rq"}) as response:
        assert response.status == 200
        assert response.headers[POD_HEADER] == POD
    for path in ("/quitquitquit", "/config_dump", "/logging", "/drain_listeners", "/runtime_modify"):
        async with session.post(router.admin + path) as response:
            assert response.status == 403, path
        async with session.post(f"{router.url}{STATS_PATH}/..{path}") as response:
            assert response.headers[TRACK_HEADER], "an engine answered, not the admin interface"


async def test_a_pod_ends_when_its_last_answer_has(
    router: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    await router.load(session, router_files({"primary": 100}))
    body = {"model": "any", "stream": True, "chunks": 1, "stepwise": True}
    async with asyncio.timeout(60), session.post(router.url + CHAT, json=body) as response:
        hook = asyncio.create_task(get(session, router, DRAINED_PATH))
        # It is asked for the figures once a second.
        await router.until_figure(session, "cluster.late.upstream_rq_total", QUIET_SECONDS + 2)
        assert not hook.done()
        async with session.post(router.url + CHAT, json={"model": "any"}) as late:
            assert late.status == 200
            assert late.headers["connection"] == "close", "its client would send the next request here too"
        engines[0].step.set()
        assert (await response.text()).endswith("data: [DONE]\n\n")
        assert await hook == 200


async def get(session: ClientSession, router: Envoy, path: str) -> int:
    async with session.get(router.url + path) as response:
        return response.status


async def test_a_service_may_be_named_by_dns(session: ClientSession, engines: list[Engine], tmp_path: Path) -> None:
    tracks = {"primary": Address("localhost", engines[0].address.port)}

    def bootstrap(proxy: Proxy) -> dict[str, object]:
        return router_bootstrap(proxy, tracks)

    async with running_envoy(tmp_path, router_files({"primary": 100}), bootstrap) as router:
        assert await track(session, router) == (200, "primary")
