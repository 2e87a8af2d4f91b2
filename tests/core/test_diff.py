"""Does a stored object satisfy an intent? Each rule by example, and all of them by search."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.core.diff import fingerprint, first_difference
from tests.core.leaves import changed, leaves, may_be_absent, removed


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        pytest.param({"a": 1}, {"a": 1, "b": 2}, id="the server adds fields"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 1, "c": {"d": 2}}}, id="also deep inside"),
        pytest.param({"a": ""}, {}, id="an empty string is dropped"),
        pytest.param({"a": 0}, {}, id="a zero is dropped"),
        pytest.param({"a": False}, {}, id="a false is dropped"),
        pytest.param({"a": []}, {}, id="an empty list is dropped"),
        pytest.param({"a": None}, {}, id="a null is dropped"),
        pytest.param({"limits": {"memory": "1024Ki"}}, {"limits": {"memory": "1Mi"}}, id="quantities are respelled"),
        pytest.param({"requests": {"cpu": 0.5}}, {"requests": {"cpu": "500m"}}, id="numbers become text"),
        pytest.param({"target": {"averageValue": "0.5"}}, {"target": {"averageValue": "500m"}}, id="of metrics too"),
        pytest.param({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}, id="of volumes too"),
        pytest.param(
            {"env": [{"name": "a", "value": "1"}]},
            {"env": [{"name": "b", "value": "2"}, {"name": "a", "value": "1"}]},
            id="others add entries to lists with keys, anywhere",
        ),
        pytest.param(
            {"ports": [{"port": 80, "protocol": "TCP"}]},
            {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}, {"port": 80, "protocol": "UDP"}]},
            id="a port is known by number and protocol",
        ),
        pytest.param({"args": ["a", "b"]}, {"args": ["a", "b"]}, id="lists without keys are equal"),
        pytest.param(
            {"rules": [{"a": 1}]},
            {"rules": [{"a": 1, "b": 2}]},
            id="the server adds fields inside of lists without keys",
        ),
    ],
)
def test_nothing_to_do(wanted: Any, live: Any):
    assert first_difference(wanted, live) is None


@pytest.mark.parametrize(
    ("wanted", "live", "path"),
    [
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b", id="another value"),
        pytest.param({"a": {"b": 1}}, {"a": {}}, "a.b", id="no value"),
        pytest.param({"a": {"b": 1}}, {"a": None}, "a", id="no mapping"),
        pytest.param({"a": False}, {"a": True}, "a", id="a zero that was overwritten"),
        pytest.param({"runAsNonRoot": False}, {}, "runAsNonRoot", id="a false that is a statement"),
        pytest.param({"runAsUser": 0}, {}, "runAsUser", id="a zero that is a statement"),
        pytest.param({"automountServiceAccountToken": False}, {}, "automountServiceAccountToken", id="a token"),
        pytest.param({"allowPrivilegeEscalation": False}, {}, "allowPrivilegeEscalation", id="an escalation"),
        pytest.param({"limits": {"memory": "1Mi"}}, {"limits": {"memory": "1M"}}, "limits.memory", id="less memory"),
        pytest.param({"limits": {"memory": "1Mi"}}, {"limits": {"memory": "x"}}, "limits.memory", id="no quantity"),
        pytest.param({"labels": {"a": "1000m"}}, {"labels": {"a": "1"}}, "labels.a", id="text that looks like one"),
        pytest.param({"env": [{"name": "a", "value": "1"}]}, {"env": []}, "env[a]", id="an entry that is gone"),
        pytest.param({"env": [{"name": "a", "value": "1"}]}, {"env": None}, "env", id="a list that is gone"),
        pytest.param(
            {"env": [{"name": "a", "value": "1"}]},
            {"env": [{"name": "a", "value": "2"}]},
            "env[a].value",
            id="an entry that was changed",
        ),
        pytest.param(
            {"ports": [{"port": 80, "protocol": "TCP"}]},
            {"ports": [{"port": 80, "protocol": "UDP"}]},
            "ports[80]",
            id="a port of another protocol",
        ),
        pytest.param({"args": ["a"]}, {"args": ["a", "b"]}, "args", id="a list without keys that grew"),
        pytest.param({"args": ["a", "b"]}, {"args": ["b", "a"]}, "args[0]", id="a list without keys in another order"),
        pytest.param({"drop": ["ALL"]}, {"drop": []}, "drop", id="a list without keys that is empty"),
    ],
)
def test_something_to_write(wanted: Any, live: Any, path: str):
    assert first_difference(wanted, live) == path


def test_the_first_difference_is_the_first_statement_that_does_not_hold():
    assert first_difference({"a": 1, "b": 1, "c": 1}, {"a": 1}) == "b"


SCALARS = st.one_of(st.booleans(), st.integers(0, 9), st.text("abc", max_size=3))
QUANTITIES = st.sampled_from(["1", "500m", "1Gi", 2])
NAMES = st.sampled_from(["a", "b", "c", "replicas", "runAsUser", "runAsNonRoot", "labels"])
VARIABLES = st.lists(
    st.fixed_dictionaries({"name": st.text("xyz", min_size=1, max_size=2), "value": SCALARS}),
    min_size=1,
    max_size=3,
    unique_by=lambda entry: entry["name"],
).map(lambda entries: {"env": entries})
RESOURCES = st.fixed_dictionaries(
    {"limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), QUANTITIES, min_size=1)}
)
OBJECTS = st.recursive(
    st.one_of(st.dictionaries(NAMES, SCALARS, min_size=1, max_size=4), VARIABLES, RESOURCES),
    lambda inner: st.dictionaries(
        NAMES, st.one_of(inner, SCALARS, st.lists(inner, max_size=3)), min_size=1, max_size=3
    ),
    max_leaves=12,
)


@given(OBJECTS)
def test_every_object_satisfies_itself(body: Any):
    assert first_difference(body, body) is None


@given(OBJECTS, st.data())
def test_every_leaf_that_is_changed_is_found(body: Any, data: st.DataObject):
    path = data.draw(st.sampled_from(list(leaves(body))))
    assert first_difference(body, changed(body, path, "something else")) is not None


@given(OBJECTS, st.data())
def test_every_leaf_that_is_removed_is_found_unless_it_was_a_zero(body: Any, data: st.DataObject):
    path = data.draw(st.sampled_from(list(leaves(body))))
    missed = isinstance(path[-1], str) and may_be_absent(body, path)
    assert (first_difference(body, removed(body, path)) is None) == missed


def test_a_fingerprint_changes_with_any_value_and_not_with_the_order_of_fields():
    body = {"a": 1, "b": {"c": [1, 2]}}
    assert fingerprint(body) == fingerprint({"b": {"c": [1, 2]}, "a": 1})
    assert fingerprint(body) != fingerprint({"a": 1, "b": {"c": [2, 1]}})
    assert fingerprint(body) != fingerprint({"a": "1", "b": {"c": [1, 2]}})


def test_a_fingerprint_is_the_same_in_every_release():
    # A hash that changes with an upgrade would write every child of the cluster once more.
    assert fingerprint({"kind": "Service", "spec": {"ports": [{"port": 80}]}}) == "792a381b1e4d9498"
