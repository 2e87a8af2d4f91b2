"""`kubectl logs` shows what the processes of a pod have written, and nobody else may ask for it."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from modelyard.local.node.pods.probes import ContainerAccess
from modelyard.local.node.process.path_mapping import Mapped, Paths
from modelyard.local.node.server.terminal import Terminal
from tests.local.node.server.kubelet import SECONDS, Node, connected_as

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def test_kubectl_shows_the_log_and_its_last_lines(node: Node) -> None:
    pod = await node.add_pod()
    node.files(pod).log.write_text("one\ntwo\nthree\n")
    assert await node.logs(pod) == ("one\ntwo\nthree\n", "")
    assert await node.logs(pod, "--tail=2") == ("two\nthree\n", "")
    assert await node.logs(pod, "--limit-bytes=5", "-c", "main") == ("one\nt", "")
    assert await node.logs(pod, "--since=1h") == ("one\ntwo\nthree\n", "")
    assert await node.logs(pod, "--since-time=2099-01-01T00:00:00Z") == ("", "")


async def test_kubectl_shows_the_time_of_each_line(node: Node) -> None:
    pod = await node.add_pod()
    node.files(pod).log.write_text("one\ntwo\n")
    output, _ = await node.logs(pod, "--timestamps")
    assert [line.split(" ")[1] for line in output.splitlines()] == ["one", "two"]
    assert all(line.startswith("20") for line in output.splitlines())


async def test_kubectl_shows_the_run_before(node: Node) -> None:
    pod = await node.add_pod()
    output, complaint = await node.logs(pod, "--previous")
    assert (output, 'previous terminated container "main"' in complaint) == ("", True)
    node.files(pod).previous_log.write_text("I crashed\n")
    node.files(pod).log.write_text("I run\n")
    assert await node.logs(pod, "--previous") == ("I crashed\n", "")


async def test_kubectl_follows_a_log_line_by_line_until_the_container_ends(node: Node) -> None:
    pod = await node.add_pod()
    log = node.files(pod).log
    log.write_text("one\n")
    process = await node.kubectl("logs", "-f", pod)
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        for line in ("one\n", "two\n", "three\n"):
            assert (await process.stdout.readline()).decode() == line
            _append(log, {"one\n": "two\n", "two\n": "three\n", "three\n": "last words"}[line])
        node.running.clear()
        assert await process.stdout.read() == b"last words"
        assert await process.wait() == 0


def _append(log: Path, text: str) -> None:
    with log.open("a") as stream:
        stream.write(text)


async def test_a_pod_that_has_not_started_says_so(node: Node) -> None:
    pod = await node.add_pod()
    output, complaint = await node.logs(pod)
    assert (output, f'container "main" in pod "{pod}" is waiting to start' in complaint) == ("", True)


async def test_a_pod_that_the_node_does_not_know_says_so(node: Node) -> None:
    pod = await node.add_pod()
    node.pods.clear()
    _, complaint = await node.logs(pod)
    assert f'the node does not run pod "{pod}" yet; try again in a moment' in complaint


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        (("exec", "POD", "--", "ls"), 'container "main" does not run'),
        (("attach", "POD"), "use `kubectl logs -f` instead"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_what_to_do_instead(
    node: Node, command: tuple[str, ...], remedy: str
) -> None:
    pod = await node.add_pod()
    process = await node.kubectl(*(pod if word == "POD" else word for word in command))
    async with asyncio.timeout(SECONDS):
        _, complaint = await process.communicate()
    assert process.returncode != 0
    assert remedy in complaint.decode()


async def test_kubectl_runs_a_command_with_what_the_container_has(node: Node, tmp_path: Path) -> None:
    pod = await node.add_pod()
    paths = Paths([Mapped("/models", str(tmp_path))])
    (tmp_path / "weights").write_text("whole\n")
    env = {"NAME": "yard", "PATH": os.environ["PATH"]}
    async with aiohttp.ClientSession() as session:
        node.entered = ContainerAccess(session, "127.0.0.1", None, (), env, str(tmp_path), paths.local)
        assert await node.exec(pod, "--", "cat", "/models/weights") == (0, "whole\n", "")
        script = "pwd; echo $NAME; echo wrong >&2; exit 3"
        code, output, complaint = await node.exec(pod, "--", "sh", "-c", script)
        assert (code, output.split()) == (3, [str(tmp_path), "yard"])
        assert complaint.startswith("wrong\n")
        assert await node.exec(pod, "-i", "--", "wc", "-c", typed=b"x" * 200_000) == (0, "200000\n", "")
        code, _, complaint = await node.exec(pod, "--", "no-such-program")
        assert (code, "no-such-program cannot be started" in complaint) == (127, True)


async def test_a_command_may_have_a_terminal(tmp_path: Path) -> None:
    terminal = Terminal()
    words = terminal.command(("sh", "-c", "test -t 0 && test -t 1 && stty size < /dev/tty && read line && echo $line"))
    terminal.resize(30, 90)
    process = await asyncio.create_subprocess_exec(
        *words, stdin=terminal.child_end, stdout=terminal.child_end, stderr=terminal.child_end, start_new_session=True
    )
    terminal.close_child_end()
    await terminal.write(b"typed\n")
    async with asyncio.timeout(SECONDS):
        shown = b"".join([piece async for piece in terminal.pieces()]).decode().split()
        assert await process.wait() == 0
    terminal.close()
    assert sorted(shown) == ["30", "90", "typed", "typed"]


@asynccontextmanager
async def _access(node: Node, user: str | None, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
    async with connected_as(node, user) as (session, context), session.get(path, ssl=context) as response:
        yield response


async def test_only_the_api_server_may_ask(node: Node) -> None:
    pod = await node.add_pod()
    node.files(pod).log.write_text("secret\n")
    async with _access(node, "somebody", f"/containerLogs/default/{pod}/main") as response:
        assert (response.status, await response.text()) == (403, "only the API server may ask; use `kubectl logs`")
    with pytest.raises(aiohttp.ClientError):
        async with _access(node, None, "/healthz"):
            pass
    async with _access(node, "modelyard-apiserver", "/healthz") as response:
        assert (response.status, await response.text()) == (200, "ok")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/containerLogs/default/POD/main?tailLines=many", 400),
        ("/containerLogs/default/POD/main?sinceTime=yesterday", 400),
        ("/containerLogs/default/POD/..%2F..%2Fother", 400),
        ("/containerLogs/default/nobody/main", 400),
        ("/pods", 404),
    ],
)
async def test_questions_that_make_no_sense_are_refused(node: Node, path: str, status: int) -> None:
    pod = await node.add_pod()
    node.files(pod).log.write_text("one\n")
    async with _access(node, "modelyard-apiserver", path.replace("POD", pod)) as response:
        assert response.status == status


def _listeners(port: int) -> set[Any]:
    return {
        bytes.fromhex(line.split()[1][:8])[::-1]
        for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1][9:], 16) == port
    }


async def test_it_listens_on_loopback_only(node: Node) -> None:
    assert _listeners(node.port) == {bytes((127, 0, 0, 1))}
