"""The handshake with servers of the official SDK: proof that the real protocol is spoken."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from modelyard.core.checks import Answer
from modelyard.core.reasons import Reason
from modelyard.net.mcp import handshake
from tests.net.greetings import check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.net.http_exchange import Locate

START_SECONDS = 60.0


@asynccontextmanager
async def official(json: bool, stateless: bool, host: str = "0.0.0.0") -> AsyncIterator[Locate]:
    options = [str(json).lower(), str(stateless).lower(), host]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.net.sdkserver", *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            port = int(await process.stdout.readline())
        yield lambda _: ("127.0.0.1", port)
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.parametrize("json", [True, False], ids=["json", "events"])
@pytest.mark.parametrize("stateless", [True, False], ids=["stateless", "sessions"])
async def test_a_server_of_the_official_sdk_is_understood(json: bool, stateless: bool) -> None:
    async with official(json, stateless) as where:
        answer = await handshake(check(timeout=START_SECONDS), where)
        again = await handshake(check(timeout=START_SECONDS), where)
        elsewhere = await handshake(check("/elsewhere", timeout=START_SECONDS), where)
    value = {
        "name": "official",
        "version": "3.2.1",
        "protocolVersion": "2025-06-18",
        "tools": ["greet", "multiply"],
        "toolCount": 2,
    }
    assert answer == again == Answer(True, Reason.ANSWERED, "the server answered; tools: 2", value)
    assert elsewhere.message.startswith("the server has no MCP endpoint at '/elsewhere' (HTTP 404)")


async def test_a_server_that_guards_against_foreign_names_gives_a_remedy() -> None:
    async with official(json=True, stateless=True, host="127.0.0.1") as where:
        answer = await handshake(check(timeout=START_SECONDS), where)
    assert answer.reason is Reason.BAD_ANSWER
    assert answer.message.endswith("let it accept the host name of its Service")
