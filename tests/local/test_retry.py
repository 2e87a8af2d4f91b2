"""Tries that fail wait longer and longer, and an event ends the wait."""

from __future__ import annotations

import asyncio
import time

from modelyard.local.retry import Backoff, pause


def test_delays_double_up_to_the_longest() -> None:
    backoff = Backoff(1.0, 10.0)
    assert [backoff.delay() for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_after_a_success_delays_begin_again() -> None:
    backoff = Backoff(0.2, 30.0)
    assert [backoff.delay(), backoff.delay()] == [0.2, 0.4]
    backoff.reset()
    assert [backoff.delay(), backoff.delay()] == [0.2, 0.4]


async def test_a_pause_ends_after_its_time_without_an_error() -> None:
    event = asyncio.Event()
    await pause(0.01, until=event)
    assert not event.is_set()


async def test_an_event_ends_a_pause_early() -> None:
    event, began = asyncio.Event(), time.monotonic()
    asyncio.get_running_loop().call_soon(event.set)
    await pause(600.0, until=event)
    assert time.monotonic() - began < 60.0


async def test_a_pause_without_a_time_lasts_until_the_event() -> None:
    event = asyncio.Event()
    pausing = asyncio.create_task(pause(None, until=event))
    await asyncio.sleep(0.01)
    assert not pausing.done()
    event.set()
    await pausing
