"""Which operator of a cluster serves a namespace, and how it is started."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.cluster.operator import Operator, release_of, started
from modelyard.core.objects import Stored
from modelyard.core.resources import DEPLOYMENT


def deployment(container: dict[str, Any], **meta: Any) -> Stored:
    spec = {"template": {"spec": {"containers": [container]}}}
    return Stored.from_dict(DEPLOYMENT, {"metadata": {"name": "yard", "namespace": "ai", **meta}, "spec": spec})


@pytest.mark.parametrize(
    ("container", "served"),
    [
        ({"args": ["run"]}, ""),
        ({"args": ["run", "--namespace=team"]}, "team"),
        ({"args": ["run", "--namespace", "team"]}, "team"),
        ({"args": ["run"], "env": [{"name": "MODELYARD_NAMESPACE", "value": "team"}]}, "team"),
    ],
)
def test_an_operator_serves_one_namespace_or_all(container: dict[str, Any], served: str) -> None:
    assert started(deployment(container)).served == served


def test_an_operator_is_started_with_its_arguments_and_variables() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {}}]
    assert started(deployment({"args": ["run", "--door"], "env": env})) == Operator(("run", "--door"), {"A": "1"})


def test_a_release_is_named_as_helm_takes_it() -> None:
    assert release_of(deployment({})) == ""
    assert release_of(deployment({}, annotations={"meta.helm.sh/release-name": "yard"})) == "yard -n ai"
