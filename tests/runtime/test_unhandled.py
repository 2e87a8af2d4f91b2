"""What nobody awaits is logged; a connection that breaks while it is closed is no news."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from modelyard.app import unhandled


@pytest.mark.parametrize(
    ("context", "level"),
    [
        ({"message": "Task exception was never retrieved", "exception": KeyError("a"), "future": None}, "error"),
        ({"message": "Fatal error on SSL protocol", "exception": RuntimeError("closed"), "protocol": None}, "debug"),
    ],
    ids=["a bug", "a connection"],
)
async def test_what_nobody_awaits_is_logged_by_its_weight(context: dict[str, object], level: str) -> None:
    with capture_logs() as lines:
        unhandled(asyncio.get_running_loop(), context)
    assert [line["log_level"] for line in lines] == [level]
