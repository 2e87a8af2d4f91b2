"""The card of an agent of the official SDK: proof that the real protocol is read."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from modelyard.core.checks import Answer
from modelyard.core.reasons import Reason
from modelyard.net.addresses import Permitted
from modelyard.net.agent_card import fetch_card
from tests.net.cards import check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.net.http_exchange import Locate

START_SECONDS = 60.0
URL = "http://echo.default.svc.cluster.local:8080"


@asynccontextmanager
async def official(**env: str) -> AsyncIterator[Locate]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.a2a_agent",
        stdout=asyncio.subprocess.PIPE, env={**os.environ, **env},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            port = int(await process.stdout.readline())
        yield lambda _: ("127.0.0.1", port)
    finally:
        process.kill()
        await process.communicate()


async def test_an_agent_of_the_official_sdk_is_understood() -> None:
    async with official(A2A_AGENT_URL=URL) as where:
        answer = await fetch_card(check(timeout=START_SECONDS), Permitted(), where)
    assert answer == Answer(
        True,
        Reason.ANSWERED,
        "the agent published its card",
        {
            "name": "Echo",
            "version": "4.5.6",
            "description": "Says what it hears",
            "url": URL,
            "documentationUrl": "https://example.com/echo",
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "capabilities": {"streaming": True, "pushNotifications": False, "stateTransitionHistory": False},
            "skills": [
                {
                    "id": "echo",
                    "name": "Echo",
                    "description": "Repeats",
                    "tags": ["test"],
                    "examples": ["hello"],
                    "inputModes": [],
                    "outputModes": [],
                }
            ],
            "skillsNames": "Echo",
        },
    )


async def test_an_agent_that_publishes_its_loopback_address_is_told_what_to_do() -> None:
    async with official() as where:
        answer = await fetch_card(check(timeout=START_SECONDS), Permitted(), where)
    assert answer.reason is Reason.ADDRESS_NOT_ALLOWED
    assert answer.message.startswith("the agent sends clients to 127.0.0.1, where they would not reach it")
