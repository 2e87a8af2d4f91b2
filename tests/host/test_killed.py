"""Ends of daemons and engines, wanted or not: nothing is lost that was asked for, and no process is left."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.host.daemons import SECONDS, YARD, Daemon, running, said, stand_in
from tests.host.engine import stream

if TYPE_CHECKING:
    from pathlib import Path


async def until_gone(daemon: Daemon) -> None:
    async with asyncio.timeout(SECONDS):
        while daemon.engines:
            await asyncio.sleep(0.02)


async def test_a_daemon_that_is_killed_leaves_no_process_and_serves_the_same_again(tmp_path: Path) -> None:
    async with running(tmp_path, "--memory=256Mi") as daemon:
        await daemon.load(YARD, owner="team/yard", priority="high", evictionProtection=True)
        # Accepted is accepted: it is killed in the middle of the download, or before.
        await daemon.end(signal.SIGKILL)
        await until_gone(daemon)
        await daemon.start()
        before = await daemon.until(YARD, lambda entry: entry["state"] == "ready")
        assert daemon.engines
        await daemon.end(signal.SIGKILL)
        await until_gone(daemon)
        await daemon.start()
        restored = await daemon.entry(YARD)
        assert restored["state"] in ("downloading", "loading")
        after = await daemon.until(YARD, lambda entry: entry["state"] == "ready")
        assert {**after, "loadedAt": ""} == {**before, "loadedAt": ""}
        assert said(await daemon.ask(YARD)).startswith("I am Yard, ")


async def test_an_engine_that_is_killed_is_started_again_and_a_model_that_was_unloaded_is_not(tmp_path: Path) -> None:
    async with running(tmp_path, "--memory=256Mi") as daemon:
        await daemon.ready(YARD)
        (engine,) = daemon.engines
        os.kill(engine, signal.SIGKILL)
        crashed = await daemon.until(YARD, lambda entry: entry["state"] != "ready")
        assert (crashed["state"], crashed["error"]["code"]) == ("loading", "EngineFailed")
        assert "loadedAt" not in crashed
        back = await daemon.until(YARD, lambda entry: entry["state"] == "ready")
        assert (back["restarts"], "error" in back) == (1, False)
        assert said(await daemon.ask(YARD)).startswith("I am Yard, ")
        await daemon.call("DELETE", f"/admin/models?model={YARD}")
        await daemon.end(signal.SIGKILL)
        await daemon.start()
        assert await daemon.entry(YARD) == {"state": "gone"}


async def test_an_engine_that_cannot_start_fails_with_its_own_words_and_is_tried_when_asked(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho the GPU fell off >&2\nexit 7\n")
    broken.chmod(0o755)
    (tmp_path / "engines.yaml").write_text(f"llamacpp: {{command: [{broken}]}}\n")
    async with running(tmp_path, "--memory=256Mi", f"--engines={tmp_path / 'engines.yaml'}") as daemon:
        await daemon.load(YARD)
        failed = await daemon.until(YARD, lambda entry: entry["state"] == "failed")
        assert failed["error"]["code"] == "EngineFailed"
        assert "code 7" in failed["error"]["message"]
        assert "the GPU fell off" in failed["error"]["message"]
        broken.unlink()
        assert (await daemon.load(YARD)).status == 202
        missing = await daemon.until(YARD, lambda entry: entry["state"] == "failed")
        assert missing["error"]["code"] == "EngineMissing"


async def test_a_drain_loses_no_byte_of_a_stream(tmp_path: Path) -> None:
    async with running(tmp_path, "--memory=256Mi", stand_in(tmp_path)) as daemon:
        await daemon.ready(YARD)
        body = {"model": YARD, "pieces": 40, "every": 0.05}
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{daemon.url}/v1/chat/completions", json=body) as response:
                first = await response.content.readany()
                os.kill(daemon.pid, signal.SIGTERM)
                rest = await response.content.read()
        assert first + rest == stream(40)
        assert await daemon.end() == 0
        await daemon.start()
        assert (await daemon.until(YARD, lambda entry: entry["state"] == "ready"))["id"] == YARD


async def test_a_request_that_outlasts_the_drain_is_broken_off_then(tmp_path: Path) -> None:
    every, drain = 0.05, 2
    async with running(tmp_path, "--memory=256Mi", f"--drain={drain}s", stand_in(tmp_path)) as daemon:
        await daemon.ready(YARD)
        body = {"model": YARD, "pieces": 10_000, "every": every}
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{daemon.url}/v1/chat/completions", json=body) as response:
                await response.content.readany()
                os.kill(daemon.pid, signal.SIGTERM)
                late = bytearray()
                with pytest.raises(aiohttp.ClientError):
                    async for piece in response.content.iter_any():
                        late += piece
        assert await daemon.end() == 0
    # By the pace of the engine, and not by a clock: a slow machine sends fewer.
    assert late.count(b"data: ") < 1.5 * drain / every


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, "--memory=256Mi", stand_in(tmp_path)) as daemon:
        await daemon.ready(YARD)
        asking = asyncio.create_task(
            daemon.call("POST", "/v1/chat/completions", {"model": YARD, "pieces": 2, "every": 30})
        )
        await daemon.until(YARD, lambda entry: entry["inFlight"] == 1)
        os.kill(daemon.pid, signal.SIGTERM)
        async with asyncio.timeout(20):
            while await daemon.answers():
                await asyncio.sleep(0.02)
            await daemon.end(signal.SIGTERM)
        assert isinstance(await asyncio.wait_for(asyncio.gather(asking, return_exceptions=True), SECONDS), list)
