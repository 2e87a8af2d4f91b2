"""What is right and wrong with an installation, by what was read alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelyard.cluster import checkup
from modelyard.cluster.checkup import Checkup, Finding, State
from modelyard.core.objects import Stored
from modelyard.core.resources import DEPLOYMENT, LEASE, NODE, Resource
from modelyard.kinds.mcp import MCP
from modelyard.manifests.crd import crd

Json = dict[str, Any]
NOW = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)
IMAGE = "ghcr.io/modelyard/modelyard:2"


def stored(resource: Resource, name: str, namespace: str = "", **parts: Any) -> Stored:
    annotations = parts.pop("annotations", {})
    meta = {"name": name, "namespace": namespace, "annotations": annotations}
    return Stored.from_dict(resource, {"metadata": meta, **parts})


@pytest.mark.parametrize(
    ("minor", "state"), [("30", "wrong"), ("31", "ok"), ("36+", "ok"), ("37", "note"), ("", "unknown")]
)
def test_a_version_of_kubernetes_is_supported_or_not(minor: str, state: str) -> None:
    assert checkup.server_version({"major": "1", "minor": minor}).state == state


def test_a_definition_is_that_of_this_version_whatever_its_descriptions_say() -> None:
    wanted = crd(MCP)
    assert checkup.definition(wanted, None).state is State.WRONG
    live = crd(MCP)
    schema = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["description"] = "other words"
    live["spec"]["conversion"] = {"strategy": "None"}
    assert checkup.definition(wanted, live).state is State.OK
    del schema["properties"]["spec"]["properties"]["image"]
    found = checkup.definition(wanted, live)
    assert (found.state, found.message.rpartition(" at ")[2]) == (
        State.WRONG,
        "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.image",
    )


@pytest.mark.parametrize(
    ("image", "ready", "state"),
    [
        (IMAGE, 2, "ok"),
        (IMAGE, 0, "wrong"),
        ("ghcr.io/modelyard/modelyard:1", 2, "note"),
        ("registry.example.com/ours:1", 1, "ok"),
    ],
)
def test_the_operator_runs_this_version_or_another(image: str, ready: int, state: str) -> None:
    spec = {"replicas": 2, "template": {"spec": {"containers": [{"image": image}]}}}
    found = stored(DEPLOYMENT, "modelyard", spec=spec, status={"readyReplicas": ready})
    assert checkup.operator(found, IMAGE, is_one_machine=False).state == state


def test_without_a_deployment_only_one_machine_has_an_operator() -> None:
    assert checkup.operator(None, IMAGE, is_one_machine=False).state is State.WRONG
    assert checkup.operator(None, IMAGE, is_one_machine=True).state is State.OK


def lease(name: str, namespace: str = "modelyard-system", holder: str = "a", age: float = 5.0) -> Stored:
    renewed = (NOW - timedelta(seconds=age)).isoformat()
    return stored(LEASE, name, namespace, spec={"holderIdentity": holder, "renewTime": renewed})


@pytest.mark.parametrize(
    ("leases", "state"),
    [
        ([], "wrong"),
        ([lease("modelyard")], "ok"),
        ([lease("modelyard", age=600)], "wrong"),
        ([lease("modelyard", holder="")], "wrong"),
        ([lease("modelyard"), lease("modelyard", "other")], "wrong"),
        ([lease("modelyard"), lease("modelyard-team")], "wrong"),
        ([lease("modelyard-team"), lease("modelyard-shop")], "ok"),
        ([lease("modelyard"), lease("3c2d.llmkube.dev", "llmkube-system")], "wrong"),
        ([lease("modelyard"), lease("3c2d.llmkube.dev", "llmkube-system", age=600)], "ok"),
        ([lease("modelyard"), lease("kube-scheduler", "kube-system")], "ok"),
    ],
)
def test_one_operator_leads_and_no_other_serves_the_same_kinds(leases: list[Stored], state: str) -> None:
    assert [found.state for found in checkup.operators(leases, NOW)] == [state]


def test_a_role_grants_all_that_is_needed_or_what_is_missing_is_named() -> None:
    wanted = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    assert checkup.role(wanted, wanted).state is State.OK
    assert checkup.role(wanted, None).state is State.WRONG
    assert checkup.role(wanted, None, "yard -n ai").remedy == "run `helm upgrade yard -n ai` with this version's chart"
    less = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert checkup.role(wanted, less).message == "the operator may not watch pods"


def test_rights_that_are_missing_are_a_note() -> None:
    assert checkup.rights({"list models": True}).state is State.OK
    assert checkup.rights({"list models": False, "list pods": True}).message == "you may not list models"


def test_a_storage_class_must_be_the_default() -> None:
    classes = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
    plain = stored(classes, "fast")
    default = stored(classes, "standard", annotations={"storageclass.kubernetes.io/is-default-class": "true"})
    assert checkup.storage([plain, default]) == Finding("storage class", State.OK, "standard is the default")
    assert checkup.storage([plain]).message == "none of fast is the default"
    assert checkup.storage([]).state is State.WRONG


def test_gpus_are_counted_over_all_nodes() -> None:
    nodes = [stored(NODE, name, status={"capacity": {"nvidia.com/gpu": "4", "cpu": "8"}}) for name in "ab"]
    assert checkup.gpus(nodes).message == "nvidia.com/gpu: 8"
    assert checkup.gpus([stored(NODE, "c", status={"capacity": {"cpu": "8"}})]).state is State.NOTE


def test_a_missing_priority_class_is_named() -> None:
    assert checkup.priority_classes(["a", "b"], ["a", "other"]).message == "missing: b"
    assert checkup.priority_classes(["a"], ["a"]).state is State.OK


def test_an_api_that_is_not_served_is_a_note() -> None:
    assert checkup.optional_api("x", "x.example.com", ["x.example.com"], "y").state is State.OK
    assert checkup.optional_api("x", "x.example.com", [], "y").state is State.NOTE


def test_only_what_is_wrong_makes_an_installation_unhealthy() -> None:
    fine = [Finding("a", state, "") for state in (State.OK, State.NOTE, State.UNKNOWN)]
    assert Checkup(tuple(fine)).is_healthy
    assert not Checkup((*fine, Finding("b", State.WRONG, ""))).is_healthy
