"""Which fields of a child would be removed, and which settings the operator of a cluster has."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.cli.run import read_policy
from modelyard.cluster.changes import dropped
from modelyard.cluster.live_plan import with_string_data
from modelyard.cluster.rehearsal import merged
from modelyard.core.policy import CacheMode, Policy


@pytest.mark.parametrize(
    ("intent", "wanted", "paths"),
    [
        ({"spec": {"a": 1}}, {"spec": {"a": 2}}, []),
        ({"spec": {"a": 1, "b": {"c": 1}}}, {"spec": {"a": 1}}, ["spec.b"]),
        ({"env": [{"name": "A", "value": "1"}, {"name": "B"}]}, {"env": [{"name": "A"}]}, ["env[A].value", "env[B]"]),
        ({"ports": [{"containerPort": 8080}]}, {"ports": [{"containerPort": 9090}]}, ["ports[8080]"]),
        ({"args": ["--key=secret", "-b"]}, {"args": ["-b"]}, []),
        ({}, {"spec": {}}, []),
    ],
)
def test_what_an_intent_no_longer_states_is_dropped(intent: Any, wanted: Any, paths: list[str]) -> None:
    assert list(dropped(intent, wanted)) == paths


def test_a_merge_patch_replaces_what_it_states_and_removes_what_it_nulls() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": 3}, "d": [2]}) == {
        "a": {"c": 2, "e": 3},
        "d": [2],
    }


def test_the_settings_of_an_operator_are_read_from_its_arguments_and_its_environment() -> None:
    arguments = ("run", "--model-cache-size", "5Gi", "--log-level=debug")
    environment = {"MODELYARD_MODEL_CACHE_MODE": "perService", "MODELYARD_DOOR": "true", "POD_NAME": "modelyard-0"}
    wanted = Policy(cache_size="5Gi", cache_mode=CacheMode.PER_SERVICE, door=True)
    assert read_policy(arguments, environment) == wanted
    assert read_policy(("run",), {"MODELYARD_DOOR": "false"}) == Policy()


def test_the_strings_of_a_secret_are_its_data() -> None:
    secret = {"kind": "Secret", "data": {"a": "eA=="}, "stringData": {"b": "y"}}
    assert with_string_data(secret) == {"kind": "Secret", "data": {"a": "eA==", "b": "eQ=="}}
