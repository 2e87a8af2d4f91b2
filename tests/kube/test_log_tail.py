"""What a container of ours says of itself, from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from modelyard.core.checks import Answer
from modelyard.core.checks.log_tail import LogTail
from modelyard.core.reasons import Reason
from modelyard.core.resources import POD, Key
from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.errors import BadRequest
from modelyard.kube.log_tail import tail_log
from modelyard.kube.transport import HttpTransport
from tests.kube.scripted import client_of, lost, serving, status, text

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster

CHECK = LogTail("a", "one", "fetch")
LINE = {"bytes": 5, "total": None, "bytesPerSecond": 2, "etaSeconds": None, "file": "model\u2028.gguf"}


def line(value: Any) -> bytes:
    return msgspec.json.encode(value)


def told(value: dict[str, Any]) -> Answer:
    return Answer(True, Reason.ANSWERED, "the log was read", value)


async def test_the_end_of_a_log_is_read() -> None:
    async with serving(text("grün\n".encode() + b"\xff")) as server, client_of(server) as client:
        assert await client.log_tail("a", "one", "fetch", 5) == "grün\n\ufffd"
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("GET", "/api/v1/namespaces/a/pods/one/log")
    assert asked.query == {"container": "fetch", "tailLines": "5", "limitBytes": "65536"}


async def test_a_log_is_observed_as_a_subresource() -> None:
    seen: list[tuple[str, str, int]] = []
    async with (
        serving(text(b"x")) as server,
        client_of(server, observe=lambda verb, label, code, _: seen.append((verb, label, code))) as client,
    ):
        await client.log_tail("a", "one", "fetch", 5)
    assert seen == [("get", "pods/log", 200)]


@pytest.mark.parametrize("name", ["", "..", "a/b"])
async def test_the_name_of_a_pod_cannot_leave_its_place_in_the_path(name: str) -> None:
    async with serving(text(b"x")) as server, client_of(server) as client:
        with pytest.raises(BadRequest):
            await client.log_tail("a", name, "fetch", 5)
    assert server.asked == []


@pytest.mark.parametrize(
    ("log", "value"),
    [
        pytest.param(b"", {}, id="nothing"),
        pytest.param(line(LINE), LINE, id="no end of the line"),
        pytest.param(line({"bytes": 1}) + b"\n" + line(LINE) + b"\n", LINE, id="the last of two"),
        pytest.param(line(LINE) + b"\nsome warning\n\n", LINE, id="other lines after it"),
        pytest.param(line(LINE) + b"\n" + line(LINE)[:20], LINE, id="a line that is being written"),
        pytest.param(line(LINE) + b"\n" + line(LINE)[20:], LINE, id="the end of a line"),
        pytest.param(line(LINE) + b'\n[1]\n3\n"x"\nnull\n{}\n', LINE, id="JSON that is no object"),
        pytest.param(line(LINE) + b'\n{"deep": {"x": 1}}\n', LINE, id="JSON of somebody else"),
        pytest.param(line(LINE) + b"\n" + b"[" * 10_000, LINE, id="deep JSON"),
        pytest.param(b"panic\n", {}, id="no JSON at all"),
        pytest.param(b"\xff\xfe\n" + line(LINE), LINE, id="not UTF-8"),
    ],
)
async def test_the_last_line_of_json_is_told(log: bytes, value: dict[str, Any]) -> None:
    async with serving(text(log)) as server, client_of(server) as client:
        assert await tail_log(client, CHECK) == told(value)


@pytest.mark.parametrize("answer", [status(404, "NotFound"), status(400, "BadRequest", "is waiting to start")])
async def test_a_container_that_is_not_there_yet_has_nothing_to_tell(answer: Any) -> None:
    async with serving(answer) as server, client_of(server) as client:
        assert await tail_log(client, CHECK) == told({})


@pytest.mark.parametrize("answer", [lost, status(500, "InternalError", "at 12:01"), status(429)])
async def test_a_log_that_cannot_be_read_is_no_news_of_the_container(answer: Any) -> None:
    async with serving(answer) as server, client_of(server) as client:
        answered = await tail_log(client, CHECK)
    assert answered == Answer(False, Reason.API_UNAVAILABLE, "the log of the container cannot be read at the moment")


async def test_a_missing_rule_is_named() -> None:
    async with serving(status(403, "Forbidden", "User cannot get it")) as server, client_of(server) as client:
        answered = await tail_log(client, CHECK)
    assert (answered.ok, answered.reason) == (False, Reason.FORBIDDEN)
    assert "pods/log" in answered.message


async def test_a_real_server_has_no_log_of_pods_that_do_not_run(cluster: Cluster, namespace: str) -> None:
    client = Client(HttpTransport(from_kubeconfig([cluster.kubeconfig])))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": "waits"},
        "spec": {"containers": [{"name": "fetch", "image": "none"}], "nodeSelector": {"no": "such-node"}},
    }
    try:
        assert await tail_log(client, LogTail(namespace, "absent", "fetch")) == told({})
        await client.create(POD, pod)
        assert (await client.get(POD, Key(namespace, "waits"))).meta.name == "waits"
        assert await tail_log(client, LogTail(namespace, "waits", "fetch")) == told({})
    finally:
        await client.close()
