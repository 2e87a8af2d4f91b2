"""A kind is asked what to read until it wants nothing new, and not for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from modelyard.core import names
from modelyard.core.checks.log_tail import LogTail
from modelyard.core.objects import Metadata, Stored
from modelyard.core.plan import Outcome
from modelyard.core.resources import DEPLOYMENT, Key
from modelyard.kinds.contract import Asked, Every, Named, NotRead, Object, Owned, Seen
from modelyard.kinds.gather import ROUNDS, Gathering, TooManyRounds
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
    assert list(reading.reads) == list(reading.seen({}).found) == [named(1), named(2)]


def test_what_is_named_twice_is_looked_up_once():
    kind = msgspec.structs.replace(MCP, reads=lambda _obj, _seen: [named(1), named(2), named(1)])
    looked_up = list(Gathering(kind, OBJ, Seen(NOW)))
    assert looked_up == [named(1), named(2)]


def test_a_kind_may_want_more_as_often_as_there_are_rounds():
    reading = read_all(lambda _, seen: [named(number) for number in range(min(ROUNDS, len(seen.found) + 1))])
    assert list(reading.reads) == [named(number) for number in range(ROUNDS)]


def test_a_kind_that_wants_more_after_the_last_round_has_a_bug():
    with pytest.raises(TooManyRounds, match="wants something new after 3 rounds"):
        read_all(lambda _, seen: [named(len(seen.found))])


@pytest.mark.parametrize("use", [lambda seen: seen.one(named(2)), lambda seen: seen.answer(QUESTION)])
def test_using_what_was_not_read_is_a_bug_and_no_empty_answer(use: Callable[[Seen], object]):
    seen = read_all(lambda _obj, _seen: [named(1)]).seen({})
    with pytest.raises(NotRead):
        use(seen)


def test_a_reader_of_many_gets_the_facet_it_named_and_nothing_of_what_it_left_out():
    every = Every(DEPLOYMENT, lambda item: item.meta.name if item.meta.name != "b" else None)
    reading = Gathering(msgspec.structs.replace(MCP, reads=lambda *_: [every]), OBJ, Seen(NOW))
    found = {Key("", name): Stored.from_dict(DEPLOYMENT, {"metadata": {"name": name}}) for name in "cba"}
    for read in reading:
        reading.found(read, found)
    assert reading.seen({}).every(every) == {Key("", "a"): "a", Key("", "c"): "c"}


def test_children_of_another_component_are_not_seen():
    def child(name: str, component: str) -> Stored:
        labels = {names.COMPONENT_LABEL: component}
        return Stored.from_dict(DEPLOYMENT, {"metadata": {"name": name, "namespace": "default", "labels": labels}})

    canary, primary = child("a-canary", "canary"), child("a-primary", "primary")
    seen = Seen(NOW, found={Owned(DEPLOYMENT, "canary"): {}, Owned(DEPLOYMENT): {}})
    after = seen.after(Outcome(stored=(canary, primary)))
    assert after.all(Owned(DEPLOYMENT, "canary")) == (canary,)
    assert after.all(Owned(DEPLOYMENT)) == (canary, primary)


def test_a_question_is_kept_for_whoever_asks_it():
    reading = read_all(lambda _obj, _seen: [QUESTION, named(1)])
    assert (reading.asked, list(reading.seen({}).found)) == ([QUESTION], [named(1)])


def test_a_child_that_was_changed_may_name_reads_that_are_gathered_at_the_next_look():
    changed = Stored.from_dict(DEPLOYMENT, {"metadata": {"name": "a", "namespace": "default", "resourceVersion": "2"}})
    seen = Seen(NOW, found={Owned(DEPLOYMENT): {}})
    assert seen.after(Outcome(stored=(changed,))).answer(QUESTION) is None
    with pytest.raises(NotRead):
        seen.after(Outcome()).answer(QUESTION)
