"""Run a test on both event loops that Modelyard meets: uvloop, and asyncio's own where there is no uvloop."""

from __future__ import annotations

import asyncio
import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.event_loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": Loop}


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make two tests of one, each on a loop of its own."""

    @pytest.mark.parametrize("loop", _LOOPS.values(), ids=_LOOPS)
    @wraps(test)
    def run(loop: Callable[[], asyncio.AbstractEventLoop], **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(test(**fixtures))

    parameters = inspect.signature(test).parameters.values()
    loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = inspect.Signature([*parameters, loop])
    return run
