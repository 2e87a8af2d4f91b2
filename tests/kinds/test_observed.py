"""Whose fault it is: only pods of the latest template can be to blame for what is wrong with a service."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from modelyard.core.objects import Stored
from modelyard.core.resources import DEPLOYMENT, POD
from modelyard.kinds.contract import Owned, Read, Seen
from modelyard.kinds.inferenceservice import observed

SOONER, LATER = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"


def pod(name: str, image: str, created: str, **spec: Any) -> Stored:
    meta = {"name": name, "namespace": "here", "creationTimestamp": created, "labels": {"pod-template-hash": name}}
    defaults = {"terminationMessagePath": "/dev/termination-log"}
    common = {"containers": [{"name": "server", "image": image, **defaults}], "tolerations": [{"key": "added"}]}
    return Stored.from_dict(POD, {"metadata": meta, "spec": {**common, **spec}})


def deployment(image: str, **spec: Any) -> Stored:
    template = {"spec": {"containers": [{"name": "server", "image": image}], "tolerations": [], **spec}}
    body: dict[str, Any] = {
        "metadata": {"name": "chat", "namespace": "here", "generation": 2},
        "spec": {"template": template},
        "status": {"observedGeneration": 2, "updatedReplicas": 1},
    }
    return Stored.from_dict(DEPLOYMENT, body)


def latest(image: str, *pods: Stored, **spec: Any) -> list[str]:
    there: dict[Read, tuple[Stored, ...]] = {Owned(DEPLOYMENT): (deployment(image, **spec),), Owned(POD): pods}
    found = {read: {one.meta.key: one for one in stored} for read, stored in there.items()}
    return [one.meta.name for one in observed.observe_pods(Seen(datetime(2026, 1, 1, tzinfo=UTC), found=found)).latest]


@pytest.mark.parametrize(
    ("old", "new"),
    [(SOONER, LATER), (SOONER, SOONER), (LATER, SOONER)],
    ids=["made later", "made in the same second", "made before one of the old ones was replaced"],
)
def test_the_pods_that_look_like_the_template_are_the_latest(old: str, new: str) -> None:
    assert latest("new", pod("a", "old", old), pod("b", "new", new)) == ["b"]


def test_a_false_that_the_template_states_tells_its_pods_from_those_of_before() -> None:
    old, new = pod("a", "same", LATER), pod("b", "same", SOONER, automountServiceAccountToken=False)
    assert latest("same", old, new, automountServiceAccountToken=False, hostNetwork=False) == ["b"]


def test_when_none_looks_like_the_template_the_newest_pod_tells() -> None:
    assert latest("new", pod("a", "mutated-1", SOONER), pod("b", "mutated-2", LATER)) == ["b"]
