"""What the client sends, and what it makes of the answers."""

from __future__ import annotations

import msgspec
import pytest

from modelyard.core.resources import DEPLOYMENT, POD, Key, Resource
from modelyard.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    StillBusy,
    TooManyRequests,
    Unavailable,
)
from modelyard.kube.throttle import Throttle
from tests.kube.scripted import answer, client_of, listing, lost, pod, serving, status, stream, text

KEY = Key("a", "one")
NODE = Resource("", "v1", "Node", "nodes", namespaced=False)


async def test_an_object_is_read_by_its_name() -> None:
    async with serving(answer(pod("one", 7, spec={"x": 1}))) as server, client_of(server) as client:
        item = await client.get(POD, KEY)
    assert (server.asked[0].method, server.asked[0].path) == ("GET", "/api/v1/namespaces/a/pods/one")
    assert (item.meta.key, item.meta.revision, item.spec) == (KEY, 7, {"x": 1})


async def test_everything_of_an_object_is_read_on_demand() -> None:
    whole = {"metadata": {"name": "one", "managedFields": [{"manager": "x"}]}, "spec": {"replicas": 3}}
    async with serving(answer(whole)) as server, client_of(server) as client:
        assert await client.get_full(DEPLOYMENT, KEY, "scale") == whole
    assert server.asked[0].path == "/apis/apps/v1/namespaces/a/deployments/one/scale"


async def test_a_new_object_goes_where_its_metadata_says() -> None:
    async with serving(answer(pod("one", 7), 201)) as server, client_of(server) as client:
        await client.create(POD, pod("one", 0))
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/a/pods")
    assert asked.query == {"fieldManager": "modelyard"}
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.json["metadata"]["name"] == "one"


async def test_an_apply_is_forced_and_ours() -> None:
    async with serving(answer(pod("one", 7))) as server, client_of(server) as client:
        await client.apply(POD, KEY, {"spec": {}})
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("PATCH", "/api/v1/namespaces/a/pods/one")
    assert asked.query == {"fieldManager": "modelyard", "force": "true"}
    assert asked.headers["Content-Type"] == "application/apply-patch+yaml"
    assert asked.json == {"spec": {}}


async def test_patches_say_what_kind_of_patch_they_are() -> None:
    async with serving(answer(pod("one", 7))) as server, client_of(server) as client:
        await client.merge_patch(POD, KEY, {"status": None}, "status")
        await client.json_patch(POD, KEY, [{"op": "test", "path": "/a", "value": 1}])
        await client.replace(POD, KEY, pod("one", 6))
    kinds = [(asked.method, asked.path, asked.headers["Content-Type"]) for asked in server.asked]
    assert kinds == [
        ("PATCH", "/api/v1/namespaces/a/pods/one/status", "application/merge-patch+json"),
        ("PATCH", "/api/v1/namespaces/a/pods/one", "application/json-patch+json"),
        ("PUT", "/api/v1/namespaces/a/pods/one", "application/json"),
    ]
    assert all(asked.query == {"fieldManager": "modelyard"} for asked in server.asked)


async def test_a_delete_names_the_uid() -> None:
    async with serving(status(200)) as server, client_of(server) as client:
        await client.delete(POD, KEY, "uid-1")
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("DELETE", "/api/v1/namespaces/a/pods/one")
    assert asked.json["preconditions"] == {"uid": "uid-1"}
    assert asked.json["propagationPolicy"] == "Background"


async def test_a_list_is_read_page_by_page() -> None:
    script = (listing(pod("one", 3), revision=9, token="more/&?"), listing(pod("two", 4), revision=9))
    async with serving(*script) as server, client_of(server) as client:
        first = await client.list_page(POD, "a", "app=x,tier in (y, z)", 2, field_selector="spec.nodeName=n")
        second = await client.list_page(POD, "", "", 2, first.token, "9")
    assert ([item.meta.name for item in first.items], first.revision, first.token) == (["one"], 9, "more/&?")
    assert ([item.meta.name for item in second.items], second.token) == (["two"], "")
    selectors = {"labelSelector": "app=x,tier in (y, z)", "fieldSelector": "spec.nodeName=n"}
    assert server.asked[0].query == {"limit": "2", **selectors}
    assert server.asked[0].path == "/api/v1/namespaces/a/pods"
    assert server.asked[1].query == {"limit": "2", "continue": "more/&?", "resourceVersion": "9"}
    assert server.asked[1].path == "/api/v1/pods"


async def test_an_empty_list_may_be_null() -> None:
    async with serving(text(b'{"metadata": {"resourceVersion": "5"}, "items": null}')) as server:
        async with client_of(server) as client:
            page = await client.list_page(POD)
    assert (page.items, page.revision, page.token) == ([], 5, "")


async def test_what_is_no_object_is_read_as_bytes() -> None:
    async with serving(text(b"ok")) as server, client_of(server) as client:
        assert await client.raw("/healthz") == b"ok"
    assert server.asked[0].path == "/healthz"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../secrets/x", "a%2fb", "/"])
async def test_a_name_cannot_leave_its_place_in_the_path(name: str) -> None:
    async with serving(answer(pod("one", 7))) as server, client_of(server) as client:
        with pytest.raises(BadRequest, match="cannot be the name"):
            await client.get(POD, Key("a", name))
        with pytest.raises(BadRequest, match="cannot be the namespace"):
            await client.delete(POD, Key(name, "one"), "uid")
    assert server.asked == []


async def test_odd_but_possible_names_are_quoted() -> None:
    async with serving(answer(pod("one", 7))) as server, client_of(server) as client:
        await client.get(NODE, Key("", "system:x?y#z&é"))
    assert server.asked[0].path == "/api/v1/nodes/system%3Ax%3Fy%23z%26%C3%A9"
    assert server.asked[0].query == {}


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (403, "Forbidden", Forbidden),
        (429, "TooManyRequests", TooManyRequests),
        (504, "Timeout", Unavailable),
    ],
)
async def test_a_refusal_is_raised(code: int, reason: str, expected: type[KubeError]) -> None:
    async with serving(status(code, reason, "because")) as server, client_of(server) as client:
        with pytest.raises(expected, match="because") as caught:
            await client.create(POD, pod("one", 0))
    assert caught.value.reason == reason


async def test_a_refused_subresource_is_named() -> None:
    async with serving(status(403, "Forbidden", "User cannot patch it")) as server, client_of(server) as client:
        with pytest.raises(Forbidden) as caught:
            await client.merge_patch(DEPLOYMENT, KEY, {}, "scale")
    assert (caught.value.verb, caught.value.resource) == ("patch", "deployments.apps/scale")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"metadata": 3}', b'{"metadata": {"name": 3}}'])
async def test_a_success_that_cannot_be_read_is_no_success(body: bytes) -> None:
    async with serving(text(body)) as server, client_of(server) as client:
        with pytest.raises(Unavailable) as caught:
            await client.create(POD, pod("one", 0))
    assert caught.value.uncertain


async def test_every_request_is_observed() -> None:
    seen: list[tuple[str, str, int]] = []

    def observe(verb: str, label: str, code: int, seconds: float) -> None:
        assert 0 <= seconds < 30
        seen.append((verb, label, code))

    script = (answer(pod("one", 7)), status(404), lost, stream(then="end"), status(403))
    async with serving(*script) as server, client_of(server, observe=observe) as client:
        await client.get(POD, KEY)
        with pytest.raises(NotFound):
            await client.list_page(DEPLOYMENT)
        with pytest.raises(Unavailable):
            await client.merge_patch(DEPLOYMENT, KEY, {}, "status")
        async with client.watch(POD, "", {}, idle=5) as lines:
            assert [line async for line in lines] == []
        with pytest.raises(Forbidden):
            async with client.watch(POD, "", {}, idle=5):
                pass
    assert seen == [
        ("get", "pods", 200),
        ("list", "deployments.apps", 404),
        ("patch", "deployments.apps/status", 0),
        ("watch", "pods", 200),
        ("watch", "pods", 403),
    ]


async def test_a_watch_that_is_refused_says_why() -> None:
    async with serving(status(403, "Forbidden", "User cannot watch it")) as server, client_of(server) as client:
        with pytest.raises(Forbidden, match="cannot watch") as caught:
            async with client.watch(POD, "a", {"resourceVersion": "1"}, idle=5):
                pass
    assert (caught.value.verb, caught.value.resource) == ("watch", "pods")
    assert server.asked[0].query == {"watch": "1", "resourceVersion": "1"}


async def test_bodies_survive_the_way() -> None:
    body = pod("one", 0, spec={"text": "ü\n\u2028\"'", "none": None, "deep": [[{"x": 1.5}]]})
    async with serving(answer(pod("one", 1))) as server, client_of(server) as client:
        await client.create(POD, body)
    assert msgspec.json.decode(server.asked[0].body) == body


async def test_a_busy_server_is_left_alone_for_as_long_as_it_asked_but_for_nothing_else() -> None:
    now = 0.0
    script = (status(429, headers={"Retry-After": "7"}), answer(pod("one", 3)))
    async with serving(*script) as server, client_of(server, throttle=Throttle(lambda: now)) as client:
        with pytest.raises(TooManyRequests):
            await client.get(POD, Key("a", "one"))
        now = 2.0
        with pytest.raises(StillBusy, match="asked us to wait") as refused:
            await client.get(POD, Key("a", "two"))
        assert (refused.value.retry_after, len(server.asked)) == (5.0, 1)
        await client.get(DEPLOYMENT, Key("a", "one"))
        now = 7.0
        await client.get(POD, Key("a", "two"))
    assert len(server.asked) == 3


async def test_a_log_is_followed_while_more_is_written() -> None:
    async with serving(stream(b"one\ntwo\nthr", b"ee\n")) as server, client_of(server) as client:
        async with client.follow_log("a", "one", "server", 50, idle=5.0) as lines:
            assert [await anext(lines) for _ in range(3)] == [b"one", b"two", b"three"]
    asked = server.asked[0]
    assert asked.path == "/api/v1/namespaces/a/pods/one/log"
    assert asked.query == {"container": "server", "tailLines": "50", "follow": "true"}


async def test_the_log_of_a_container_that_has_not_started_is_refused() -> None:
    async with serving(status(400, "BadRequest", "waiting to start")) as server, client_of(server) as client:
        with pytest.raises(BadRequest, match="waiting to start"):
            async with client.follow_log("a", "one", "server", 50, idle=5.0):
                pass
