"""A kind is asked what to read until it wants nothing new, and not for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from modelyard.core.checks import LogTail
from modelyard.core.objects import Metadata, Stored
from modelyard.core.resources import DEPLOYMENT, Key
from modelyard.kinds.contract import Asked, Named, Object, Seen
from modelyard.kinds.gather import ROUNDS, Gathering
from modelyard.kinds.mcp import MCP
from tests.kinds.cases import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from modelyard.kinds.contract import Read

OBJ: Object[Any] = Object(Metadata(name="a", namespace="default"), None, {})
QUESTION = Asked(LogTail("default", "pod", "container"))


def named(number: int) -> Named:
    return Named(DEPLOYMENT, f"child-{number}")


def read_all(reads: Callable[[Object[Any], Seen], Iterable[Read]]) -> Gathering:
    reading = Gathering(msgspec.structs.replace(MCP, reads=reads), OBJ, Seen(NOW))
    for read in reading:
        assert isinstance(read, Named)
        reading.found(
            read, {Key("default", read.name): Stored.from_dict(DEPLOYMENT, {"metadata": {"name": read.name}})}
        )
    return reading


def test_what_to_read_may_depend_on_what_was_found():
    reading = read_all(lambda _, seen: [named(1), *([named(2)] if seen.one(named(1)) else [])])
    assert list(reading.reads) == list(reading.seen.found) == [named(1), named(2)]


def test_a_kind_that_always_wants_more_is_stopped():
    reading = read_all(lambda _, seen: [named(len(seen.found))])
    assert list(reading.reads) == [named(number) for number in range(ROUNDS)]


def test_a_question_is_kept_for_whoever_asks_it():
    reading = read_all(lambda _obj, _seen: [QUESTION, named(1)])
    assert (reading.asked, list(reading.seen.found)) == ([QUESTION], [named(1)])
