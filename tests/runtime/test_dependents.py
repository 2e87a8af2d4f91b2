"""Who is woken by a change: those who read it, and of many readers only those whose answer changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from modelyard.core.objects import Stored
from modelyard.core.resources import DEPLOYMENT, SECRET, SERVICE, Key, Resource
from modelyard.core.selectors import Expression, Operator, Selector
from modelyard.kinds.contract import Every, Named, Owned
from modelyard.runtime.dependents import Dependents, Item, matches
from tests.runtime.objects import stored

if TYPE_CHECKING:
    from modelyard.kinds.contract import Read

ONE, TWO = Item("mcp", Key("default", "one")), Item("mcp", Key("default", "two"))


def replicas(item: Stored) -> object:
    return item.spec.get("replicas")


@pytest.fixture
def dependents() -> Dependents:
    return Dependents()


def woken(dependents: Dependents, old: Stored | None, new: Stored | None) -> set[Item]:
    return set(dependents.woken_by(DEPLOYMENT, old, new))


def test_whoever_named_an_object_is_woken_by_it(dependents: Dependents):
    dependents.record(ONE, [Named(DEPLOYMENT, "a")])
    dependents.record(TWO, [Named(DEPLOYMENT, "b")])
    assert woken(dependents, None, stored("a")) == {ONE}
    assert woken(dependents, stored("b"), None) == {TWO}
    assert woken(dependents, None, stored("c")) == set()


def test_a_name_means_the_readers_own_namespace(dependents: Dependents):
    dependents.record(ONE, [Named(DEPLOYMENT, "a")])
    assert woken(dependents, None, stored("a", namespace="elsewhere")) == set()


def test_a_name_means_one_resource(dependents: Dependents):
    dependents.record(ONE, [Named(SERVICE, "a")])
    assert woken(dependents, None, stored("a")) == set()


def test_an_object_may_be_named_before_it_exists(dependents: Dependents):
    dependents.record(ONE, [Named(DEPLOYMENT, "a"), Named(SECRET, "b")])
    dependents.record(TWO, [Named(DEPLOYMENT, "a")])
    assert woken(dependents, None, stored("a")) == {ONE, TWO}


def test_children_wake_their_owners_without_being_recorded(dependents: Dependents):
    dependents.record(ONE, [Owned(DEPLOYMENT)])
    assert woken(dependents, None, stored("a")) == set()


def test_what_was_read_before_is_forgotten(dependents: Dependents):
    dependents.record(ONE, [Named(DEPLOYMENT, "a")])
    dependents.record(ONE, [Named(DEPLOYMENT, "b")])
    assert woken(dependents, None, stored("a")) == set()
    assert woken(dependents, None, stored("b")) == {ONE}


def test_a_facet_that_many_read_is_worked_out_once(dependents: Dependents):
    asked: list[Stored] = []

    def facet(item: Stored) -> object:
        asked.append(item)
        return item.spec.get("replicas")

    many = {Item("mcp", Key("default", f"reader-{number}")) for number in range(200)}
    for reader in many:
        dependents.record(reader, [Every(DEPLOYMENT, facet)])
    old, new = stored("a", spec={"replicas": 1}), stored("a", spec={"replicas": 2})
    assert woken(dependents, old, new) == many
    assert asked == [old, new]


@pytest.mark.parametrize("read", [Named(DEPLOYMENT, "a"), Every(DEPLOYMENT, replicas)])
def test_an_object_that_is_gone_is_not_woken(dependents: Dependents, read: Read):
    dependents.record(ONE, [read])
    dependents.forget(ONE)
    assert woken(dependents, None, stored("a")) == set()


def test_a_reader_of_all_is_woken_only_when_its_facet_changes(dependents: Dependents):
    dependents.record(ONE, [Every(DEPLOYMENT, replicas)])
    before = stored("a", 1, spec={"replicas": 1, "paused": False})
    assert woken(dependents, before, stored("a", 2, spec={"replicas": 1, "paused": True})) == set()
    assert woken(dependents, before, stored("a", 2, spec={"replicas": 2})) == {ONE}


def test_a_reader_of_all_is_woken_when_an_object_comes_or_goes(dependents: Dependents):
    dependents.record(ONE, [Every(DEPLOYMENT, lambda _item: True)])
    assert woken(dependents, None, stored("a")) == {ONE}
    assert woken(dependents, stored("a"), None) == {ONE}


def test_a_facet_of_nothing_says_that_the_object_does_not_matter(dependents: Dependents):
    dependents.record(ONE, [Every(DEPLOYMENT, lambda _item: None)])
    assert woken(dependents, None, stored("a")) == set()


def test_news_may_wait_as_long_as_its_most_urgent_reader_allows(dependents: Dependents):
    dependents.record(ONE, [Every(DEPLOYMENT, replicas, within=5.0)])
    dependents.record(TWO, [Every(DEPLOYMENT, replicas, within=5.0), Named(DEPLOYMENT, "a")])
    assert dependents.woken_by(DEPLOYMENT, None, stored("a", spec={"replicas": 1})) == {ONE: 5.0, TWO: 0.0}


def test_a_reader_by_label_is_woken_when_an_object_begins_or_ceases_to_match(dependents: Dependents):
    dependents.record(ONE, [Every(DEPLOYMENT, lambda _item: True, selector=Selector((("team", "x"),)))])
    mine, other = stored("a", 1, labels={"team": "x"}), stored("a", 2, labels={"team": "y"})
    assert woken(dependents, mine, other) == {ONE}
    assert woken(dependents, other, mine) == {ONE}
    assert woken(dependents, other, stored("a", 3, labels={"team": "z"})) == set()


def test_a_reader_is_woken_when_any_of_its_reads_changes(dependents: Dependents):
    by_name = Every(DEPLOYMENT, lambda item: item.meta.name)
    dependents.record(ONE, [by_name, Every(DEPLOYMENT, replicas)])
    assert woken(dependents, stored("a", 1, spec={"replicas": 1}), stored("a", 2, spec={"replicas": 2})) == {ONE}


def test_nothing_wakes_nobody(dependents: Dependents):
    dependents.record(ONE, [Named(DEPLOYMENT, "a")])
    assert woken(dependents, None, None) == set()


def expressed(key: str, operator: Operator, *values: str) -> Every[object]:
    return Every(DEPLOYMENT, replicas, selector=Selector(expressions=(Expression(key, operator, values),)))


@pytest.mark.parametrize(
    ("read", "answer"),
    [
        (Every(DEPLOYMENT, replicas), True),
        (Every(DEPLOYMENT, replicas, namespace="default"), True),
        (Every(DEPLOYMENT, replicas, namespace="elsewhere"), False),
        (Every(DEPLOYMENT, replicas, selector=Selector((("team", "x"), ("tier", "1")))), True),
        (Every(DEPLOYMENT, replicas, selector=Selector((("team", "x"), ("tier", "2")))), False),
        (Every(DEPLOYMENT, replicas, selector=Selector((("none", "x"),))), False),
        (expressed("team", Operator.IN, "x", "y"), True),
        (expressed("team", Operator.IN, "y"), False),
        (expressed("none", Operator.IN, "x"), False),
        (expressed("team", Operator.NOT_IN, "x"), False),
        (expressed("none", Operator.NOT_IN, "x"), True),
        (expressed("team", Operator.EXISTS), True),
        (expressed("none", Operator.EXISTS), False),
        (expressed("team", Operator.DOES_NOT_EXIST), False),
        (expressed("none", Operator.DOES_NOT_EXIST), True),
    ],
)
def test_an_object_matches_by_namespace_labels_and_expressions(read: Every, answer: bool):
    assert matches(read, stored("a", labels={"team": "x", "tier": "1"})) is answer


def test_a_facet_with_a_bug_wakes_its_reader_and_stops_nobody(dependents: Dependents):
    def broken(_: Stored) -> object:
        raise ZeroDivisionError

    dependents.record(ONE, [Every(DEPLOYMENT, facet=broken)])
    dependents.record(TWO, [Every(DEPLOYMENT, facet=replicas)])
    with capture_logs() as logs:
        assert woken(dependents, stored("a"), stored("a")) == {ONE}
    assert [(line["event"], line["object"]) for line in logs] == [("a facet failed", "deployments.apps default/a")]


def test_a_reader_of_a_cluster_scoped_object_is_woken_by_it(dependents: Dependents):
    scheduling = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
    dependents.record(ONE, [Named(scheduling, "high")])
    item = Stored.from_dict(scheduling, {"metadata": {"name": "high", "resourceVersion": "1"}, "value": 1})
    assert set(dependents.woken_by(scheduling, None, item)) == {ONE}
