"""Objects as they are kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from modelyard.core.objects import Stored
from modelyard.core.resources import DEPLOYMENT, NODE, SERVICE, Key, Ref, Resource

OWNERS = [
    {"apiVersion": "v1", "kind": "ConfigMap", "name": "reader", "uid": "u1"},
    {"apiVersion": "x/v1", "kind": "MCP", "name": "tools", "uid": "u2", "controller": True, "blockOwnerDeletion": True},
]
BODY: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "tools",
        "namespace": "team-a",
        "uid": "u3",
        "resourceVersion": "12",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "tools"},
        "annotations": {"note": "x"},
        "ownerReferences": OWNERS,
        "finalizers": ["a/b"],
    },
    "spec": {"replicas": 2, "template": {"spec": {"containers": []}}},
    "status": {"readyReplicas": 1},
}


def test_what_is_kept_comes_back_as_it_was():
    stored = Stored.from_dict(DEPLOYMENT, BODY)
    back = stored.to_dict()
    assert {**back, "metadata": {}} == {**BODY, "metadata": {}}
    assert BODY["metadata"].items() <= back["metadata"].items()
    assert Stored.from_dict(DEPLOYMENT, back) == stored


def test_managed_fields_are_dropped():
    meta = {**BODY["metadata"], "managedFields": [{"manager": "somebody", "fieldsV1": {"f:spec": {}}}]}
    stored = Stored.from_dict(DEPLOYMENT, {**BODY, "metadata": meta})
    assert stored == Stored.from_dict(DEPLOYMENT, BODY)
    assert b"somebody" not in msgspec.json.encode(stored.to_dict())


def test_parts_that_are_absent_are_empty():
    stored = Stored.from_dict(SERVICE, {"metadata": {"name": "it"}})
    assert (stored.spec, stored.status, stored.part("data")) == ({}, {}, {})
    assert (stored.meta.label("app"), stored.meta.annotation("note")) == ("", "")
    assert stored.meta.controller is None


def test_changing_what_was_decoded_does_not_change_what_is_kept():
    stored = Stored.from_dict(DEPLOYMENT, BODY)
    stored.spec["template"]["spec"]["containers"].append("x")
    assert stored.spec == BODY["spec"]


def test_the_metadata_answers_what_decisions_ask():
    meta = Stored.from_dict(DEPLOYMENT, BODY).meta
    assert (meta.key, meta.revision, meta.deleting) == (Key("team-a", "tools"), 12, False)
    assert meta.controller is not None
    assert meta.controller.uid == "u2"
    assert (meta.label("app"), meta.annotation("note")) == ("tools", "x")


def test_an_object_that_is_going_away_says_so():
    meta = {**BODY["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert Stored.from_dict(DEPLOYMENT, {**BODY, "metadata": meta}).meta.deleting


def test_a_reference_names_exactly_this_object():
    assert Stored.from_dict(DEPLOYMENT, BODY).ref == Ref(DEPLOYMENT, Key("team-a", "tools"), "u3")


@pytest.mark.parametrize(
    ("resource", "args", "path"),
    [
        (SERVICE, (), "/api/v1/services"),
        (SERVICE, ("a",), "/api/v1/namespaces/a/services"),
        (DEPLOYMENT, ("a", "b"), "/apis/apps/v1/namespaces/a/deployments/b"),
        (DEPLOYMENT, ("a", "b", "scale"), "/apis/apps/v1/namespaces/a/deployments/b/scale"),
        (Resource("", "v1", "Node", "nodes", namespaced=False), ("a", "b"), "/api/v1/nodes/b"),
    ],
)
def test_a_resource_knows_its_paths(resource: Resource, args: tuple[str, ...], path: str):
    assert resource.path(*args) == path


def test_a_key_reads_like_kubectl_writes_it():
    assert (str(Key("a", "b")), str(Key("", "b"))) == ("a/b", "b")


def test_a_resource_is_called_what_logs_call_it():
    assert (DEPLOYMENT.label, SERVICE.label) == ("deployments.apps", "services")


def test_of_a_node_only_what_is_needed_is_kept():
    node = Stored.from_dict(
        NODE,
        {
            "metadata": {"name": "a"},
            "status": {"capacity": {"nvidia.com/gpu": "8"}, "images": [{"names": ["large"]}]},
        },
    )
    assert node.status == {"capacity": {"nvidia.com/gpu": "8"}}
