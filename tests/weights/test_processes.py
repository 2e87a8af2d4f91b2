"""`modelyard fetch` as a process: killed, stopped, doubled, short of space, and silent about secrets."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from modelyard.core.exitcodes import Code
from modelyard.weights.volume import MARGIN
from tests.weights.fileserver import FileServer, status
from tests.weights.program import SECONDS, ended, run, start

if TYPE_CHECKING:
    from pathlib import Path

MOUNTED = 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && "$@"; code=$?; ls -A "$0" >&2; exit $code'


async def partial_of(folder: Path, size: int) -> Path:
    """Return the partial file once it has this size."""
    async with asyncio.timeout(SECONDS):
        while not (found := [path for path in folder.glob("*.partial") if path.stat().st_size == size]):
            await asyncio.sleep(0.02)
    return found[0]


def mounted(folder: Path, options: str) -> tuple[str, ...]:
    """Return the command that runs another one with a small file system of its own at a folder."""
    folder.mkdir()
    return ("unshare", "-rm", "sh", "-c", MOUNTED, str(folder), options, str(folder))


async def test_a_killed_fetch_is_resumed_by_the_next_process(server: FileServer, tmp_path: Path) -> None:
    server.script = [server.good, server.held(200_000, asyncio.Event())]
    process = await start(server.url, "--to", str(tmp_path))
    await partial_of(tmp_path, 200_000)
    process.kill()
    await ended(process)
    assert not (tmp_path / "model.gguf").exists()
    again = await run(server.url, "--to", str(tmp_path))
    assert server.requests[-1].headers["Range"] == "bytes=200000-"
    assert (tmp_path / "model.gguf").read_bytes() == server.content
    assert (again.code, again.result["result"], again.result["bytes"]) == (0, "ok", len(server.content))
    assert list(tmp_path.glob("*.partial")) == []


@pytest.mark.parametrize(("mask", "bit"), [("022", 0o020), ("077", 0)])
async def test_the_group_may_replace_what_is_fetched_unless_it_is_kept_out(
    server: FileServer, tmp_path: Path, mask: str, bit: int
) -> None:
    await run(server.url, "--to", str(tmp_path / "new"), before=("sh", "-c", f'umask {mask}; exec "$@"', "sh"))
    assert [path.stat().st_mode & 0o020 for path in (tmp_path / "new", tmp_path / "new" / "model.gguf")] == [bit, bit]


async def test_a_termination_log_that_cannot_be_written_changes_nothing(server: FileServer, tmp_path: Path) -> None:
    done = await run(server.url, "--to", str(tmp_path / "new"), TERMINATION_LOG=str(tmp_path))
    assert (done.code, done.result["result"]) == (0, "ok")


async def test_a_file_where_the_folder_should_be_is_no_passing_trouble(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    assert (await run(server.url, "--to", str(tmp_path / "taken"))).code == Code.NOT_WRITABLE


async def test_sigterm_ends_it_and_keeps_what_came(server: FileServer, tmp_path: Path) -> None:
    server.script = [server.good, server.held(200_000, asyncio.Event())]
    process = await start(server.url, "--to", str(tmp_path))
    partial = await partial_of(tmp_path, 200_000)
    process.send_signal(signal.SIGTERM)
    stopped = await ended(process)
    assert (stopped.code, stopped.result["result"]) == (Code.STOPPED, "stopped")
    assert partial.read_bytes() == server.content[:200_000]


async def test_the_second_process_waits_and_finds_the_work_done(server: FileServer, tmp_path: Path) -> None:
    release = asyncio.Event()
    server.script = [server.good, server.held(200_000, release)]
    first = await start(server.url, "--to", str(tmp_path))
    await partial_of(tmp_path, 200_000)
    second = await start(server.url, "--to", str(tmp_path))
    assert second.stdout is not None
    async with asyncio.timeout(SECONDS):
        assert "waiting" in json.loads(await second.stdout.readline())
    release.set()
    done = [await ended(first), await ended(second)]
    assert [one.result["result"] for one in done] == ["ok", "ok"]
    assert len(server.requests) == 2
    assert (tmp_path / "model.gguf").read_bytes() == server.content


async def test_what_does_not_fit_is_not_begun(server: FileServer, tmp_path: Path) -> None:
    full = await run(server.url, "--to", str(tmp_path / "v"), before=mounted(tmp_path / "v", "size=1m"))
    assert (full.code, full.result["result"]) == (Code.NO_SPACE, "no-space")
    assert f"{300_024 + MARGIN} bytes are needed" in full.result["message"]
    assert len(server.requests) == 1


async def test_a_volume_that_fills_up_on_the_way_is_left_clean(server: FileServer, tmp_path: Path) -> None:
    async def chunked(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for _ in range(20):
            await response.write(bytes(100_000))
        return response

    server.otherwise = chunked
    full = await run(server.url, "--to", str(tmp_path / "v"), before=mounted(tmp_path / "v", "size=1m"))
    assert (full.code, full.result["result"]) == (Code.NO_SPACE, "no-space")
    assert "is full" in full.result["message"]
    assert ".partial" not in full.text


async def test_a_read_only_volume_has_its_own_code(server: FileServer, tmp_path: Path) -> None:
    closed = await run(server.url, "--to", str(tmp_path / "v"), before=mounted(tmp_path / "v", "ro"))
    assert (closed.code, closed.result["result"]) == (Code.NOT_WRITABLE, "not-writable")
    assert server.requests == []


@pytest.mark.parametrize("answer", [200, 403, 404])
async def test_secrets_are_nowhere_to_be_seen(server: FileServer, tmp_path: Path, answer: int) -> None:
    if answer != 200:
        server.otherwise = status(answer)
    log = tmp_path / "termination"
    log.touch()
    names = ("HF_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    secrets = {name: f"hidden-{number}" for number, name in enumerate(names)}
    url = server.url.replace("://", "://me:hidden-word@") + "?signature=hidden-signature"
    done = await run(url, "--to", str(tmp_path / "w"), TERMINATION_LOG=str(log), **secrets)
    files = (path.read_bytes() for path in (tmp_path / "w").iterdir() if path.name != "model.gguf")
    seen = done.text + log.read_text() + b"".join(files).decode()
    assert "hidden" not in seen
    assert json.loads(log.read_text()) == done.result
    assert done.result["result"] == {200: "ok", 403: "auth", 404: "not-found"}[answer]


async def test_a_source_with_a_secret_can_come_by_environment(server: FileServer, tmp_path: Path) -> None:
    url = f"{server.url}?signature=hidden-signature"
    done = await run("--to", str(tmp_path), "--link", "served.gguf", MODEL_SOURCE=url)
    assert (done.code, done.result["file"]) == (0, "model.gguf")
    assert (tmp_path / "served.gguf").read_bytes() == server.content
    assert server.requests[0].query_string == "signature=hidden-signature"
    assert "hidden" not in done.text + (tmp_path / "manifest.json").read_text()


async def test_an_argument_goes_before_the_environment(server: FileServer, tmp_path: Path) -> None:
    done = await run(server.url, "--to", str(tmp_path), MODEL_SOURCE="ftp://nowhere/x")
    assert done.code == 0


async def test_a_hash_may_be_written_in_capitals(server: FileServer, tmp_path: Path) -> None:
    wrong = await run(server.url, "--to", str(tmp_path), "--sha256", "AB" * 32)
    assert wrong.code == Code.CHECKSUM
    right = await run(server.url, "--to", str(tmp_path), "--sha256", wrong.result["message"].split()[4].upper())
    assert right.code == Code.OK
