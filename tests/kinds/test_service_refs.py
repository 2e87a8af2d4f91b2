"""What a reference to an object of the namespace leads to: an address, a model, or a problem that names the field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from modelyard.core.objects import Stored
from modelyard.core.reasons import Reason
from modelyard.core.resources import Key, Resource
from modelyard.kinds.contract import Seen
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL
from modelyard.kinds.inferenceservice.api import RESOURCE
from modelyard.kinds.modeldeployment.api import RESOURCE as MODEL_DEPLOYMENT
from modelyard.kinds.shared.door_models import DoorModel
from modelyard.kinds.shared.gateway_refs import GATEWAY, GatewayRef, ResolvedGateway, read_gateway, resolve_gateway
from modelyard.kinds.shared.service_refs import (
    RESOURCES,
    ResolvedService,
    ServedModel,
    ServiceRef,
    offered_model,
    read_service,
    resolve_service,
    served_model,
)
from modelyard.kinds.zerfooinferenceservice.api import RESOURCE as ZERFOO

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENDPOINT = "http://chat.default.svc.cluster.local:8080/v1/chat/completions"
AVAILABLE = [{"type": "Available", "status": "True"}]
UNAVAILABLE = [{"type": "Available", "status": "False"}]
FIELD = "spec.providers"


def service(status: dict[str, Any] | None = None, meta: dict[str, Any] | None = None, **spec: Any) -> Stored:
    body = {"modelRef": "weights", "runtime": "llamacpp", **spec}
    metadata = {"name": "chat", "namespace": "default", **(meta or {})}
    return Stored.from_dict(RESOURCE, {"metadata": metadata, "spec": body, "status": status or {}})


def named(resource: Resource, spec: dict[str, Any], status: dict[str, Any] | None = None, **meta: Any) -> Stored:
    metadata = {"name": "chat", "namespace": "default", **meta}
    return Stored.from_dict(resource, {"metadata": metadata, "spec": spec, "status": status or {}})


def resolved(stored: Stored | None) -> ResolvedService:
    ref = ServiceRef("chat")
    found = {stored.meta.key: stored} if stored else {}
    return resolve_service(ref, FIELD, Seen(NOW, found={read_service(ref): found}))


def test_a_service_that_answers_is_an_address_and_a_model():
    found = resolved(service({"endpoint": ENDPOINT, "conditions": AVAILABLE}))
    expected = ServedModel("http://chat.default.svc.cluster.local:8080/v1", "chat", ready=True)
    assert found == ResolvedService(expected, None)


def test_the_address_is_known_before_a_pod_answers():
    found = resolved(service({"endpoint": ENDPOINT, "conditions": UNAVAILABLE}))
    assert found.served == ServedModel("http://chat.default.svc.cluster.local:8080/v1", "chat", ready=False)
    assert found.problem
    assert found.problem.reason is Reason.REFERENCE_NOT_READY


@pytest.mark.parametrize(("spec", "port"), [({}, 8080), ({"endpoint": {"port": 9000}}, 9000)])
def test_before_there_is_a_status_the_address_is_the_one_that_is_going_to_be(spec: dict[str, Any], port: int):
    found = resolved(service(**spec))
    assert found.served == ServedModel(f"http://chat.default.svc.cluster.local:{port}/v1", "chat", ready=False)
    assert found.problem
    assert found.problem.reason is Reason.REFERENCE_NOT_READY
    assert "kubectl describe inferenceservice chat" in found.problem.remedy


@pytest.mark.parametrize("stored", [None, service(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})])
def test_what_is_absent_or_going_is_not_found(stored: Stored | None):
    found = resolved(stored)
    assert found.served is None
    assert found.problem
    assert found.problem.reason is Reason.REFERENCE_NOT_FOUND
    assert FIELD in found.problem.text


def test_a_service_of_another_protocol_cannot_be_used():
    found = resolved(service({"endpoint": ENDPOINT, "conditions": AVAILABLE}, runtime="personaplex"))
    assert found.served is None
    assert found.problem
    assert found.problem.reason is Reason.REFERENCE_UNFIT


@pytest.mark.parametrize(
    ("spec", "url", "model"),
    [
        ({}, "/v1", "chat"),
        ({"endpoint": {"path": "/engine/v1/chat/completions"}}, "/engine/v1", "chat"),
        ({"runtime": "vllm", "extraArgs": ["--served-model-name", "big"]}, "/v1", "big"),
    ],
)
def test_path_and_name_are_those_that_the_engine_takes(spec: dict[str, Any], url: str, model: str):
    found = served_model(service({"endpoint": ENDPOINT}, **spec))
    is_any = model == "chat"
    assert found == ServedModel(f"http://chat.default.svc.cluster.local:8080{url}", model, False, is_any)


@pytest.mark.parametrize(("spec", "name"), [({}, "gemma-3-1b"), ({"runtime": "vllm"}, "chat")])
def test_a_zerfoo_service_is_an_address_and_a_name_that_its_engine_takes(spec: dict[str, Any], name: str):
    track = {"name": "primary", "model": "gemma-3-1b", "readyReplicas": 1, "effectiveWeight": 100}
    stored = named(ZERFOO, {"modelRef": "gemma-3-1b", **spec}, {"tracks": [track]})
    assert served_model(stored) == ServedModel("http://chat-svc.default.svc.cluster.local:8080/v1", name, ready=True)


@pytest.mark.parametrize(("ready", "reason"), [(1, None), (0, Reason.REFERENCE_NOT_READY)])
def test_a_model_on_hosts_is_known_before_one_of_them_answers(ready: int, reason: Reason | None):
    ref = ServiceRef("chat", kind="InferenceModel")
    stored = named(INFERENCE_MODEL, {"model": "gemma3:1b"}, {"readyReplicas": ready})
    found = resolve_service(ref, FIELD, Seen(NOW, found={read_service(ref): {stored.meta.key: stored}}))
    url = "http://chat.default.svc.cluster.local:11434/v1"
    assert found.served == ServedModel(url, "gemma3:1b", bool(ready), takes_own_name=False)
    assert (found.problem and found.problem.reason) is reason


@pytest.mark.parametrize(
    ("stored", "aliases", "takes_own_name"),
    [
        (("InferenceModel", {"model": "gemma3:1b"}), ("gemma3:1b",), False),
        (("ModelDeployment", {"modelName": "gemma"}), ("gemma",), True),
        (("ModelDeployment", {"modelName": "gemma", "args": ["--served-model-name", "big"]}), ("big",), False),
        (("ModelDeployment", {"modelName": "gemma", "engine": "llamacpp"}), ("gemma",), True),
        (("ZerfooInferenceService", {"modelRef": "gemma-3-1b"}), ("gemma-3-1b",), True),
        (("InferenceService", {"modelRef": "weights", "runtime": "llamacpp"}), ("weights",), True),
    ],
)
def test_an_offered_model_goes_by_the_names_that_its_server_takes(
    stored: tuple[str, dict[str, Any]], aliases: tuple[str, ...], takes_own_name: bool
):
    kind, spec = stored
    (resource,) = [one for one in RESOURCES if one.kind == kind]
    found = offered_model(named(resource, spec))
    host = "chat-svc" if kind == "ZerfooInferenceService" else "chat"
    assert found == DoorModel(Key("default", "chat"), host, aliases, takes_own_name)
    assert offered_model(named(resource, spec, {}, deletionTimestamp="2026-01-01T00:00:00Z")) is None


@pytest.mark.parametrize(
    ("served", "aliases", "takes_own_name"),
    [(["old", "chat"], ("old",), True), (["big", "bigger"], ("big", "bigger"), False)],
)
def test_a_model_deployment_goes_by_the_names_that_its_pods_take_now(
    served: list[str], aliases: tuple[str, ...], takes_own_name: bool
):
    stored = named(MODEL_DEPLOYMENT, {"modelName": "new"}, {"servedNames": served, "endpoint": ENDPOINT})
    assert offered_model(stored) == DoorModel(Key("default", "chat"), "chat", aliases, takes_own_name)
    found = served_model(stored)
    assert found
    assert (found.model, found.takes_own_name) == (served[0], takes_own_name)


@pytest.mark.parametrize(
    ("primary", "canary", "answers"), [((1, 80), (0, 20), True), ((0, 80), (1, 20), True), ((0, 100), (1, 0), False)]
)
def test_a_zerfoo_service_answers_while_a_track_with_a_share_has_a_pod(
    primary: tuple[int, int], canary: tuple[int, int], answers: bool
):
    tracks = [
        {"name": name, "readyReplicas": ready, "effectiveWeight": share}
        for name, (ready, share) in (("primary", primary), ("canary", canary))
    ]
    conditions = [{"type": "PrimaryReady", "status": "False"}]
    found = served_model(named(ZERFOO, {"modelRef": "old"}, {"tracks": tracks, "conditions": conditions}))
    assert found
    assert found.ready is answers


def test_a_zerfoo_service_goes_by_the_model_that_was_promoted():
    stored = named(ZERFOO, {"modelRef": "old"}, {"tracks": [{"name": "primary", "model": "new"}]})
    assert offered_model(stored) == DoorModel(Key("default", "chat"), "chat-svc", ("new",))


def test_an_inferencemodel_of_a_service_is_offered_as_that_service_only():
    owner = {"apiVersion": RESOURCE.api_version, "kind": RESOURCE.kind, "name": "chat", "uid": "1", "controller": True}
    found = [
        offered_model(named(INFERENCE_MODEL, {"model": "org/chat"}, {}, ownerReferences=references))
        for references in ([], [owner])
    ]
    assert [one is not None for one in found] == [True, False]


def test_a_model_deployment_is_known_by_its_endpoint():
    ref = ServiceRef("chat", kind="ModelDeployment")
    known = named(MODEL_DEPLOYMENT, {"modelName": "gemma"}, {"endpoint": ENDPOINT, "conditions": AVAILABLE})
    url = "http://chat.default.svc.cluster.local:8080/v1"
    assert served_model(known) == ServedModel(url, "gemma", ready=True)
    new = named(MODEL_DEPLOYMENT, {"modelName": "gemma"})
    found = resolve_service(ref, FIELD, Seen(NOW, found={read_service(ref): {new.meta.key: new}}))
    assert found.served is None
    assert found.problem
    assert found.problem.reason is Reason.REFERENCE_NOT_READY


@pytest.mark.parametrize(
    ("status", "url", "reason"),
    [
        ({"serviceUrl": "http://edge:80", "conditions": AVAILABLE}, "http://edge:80", None),
        ({"serviceUrl": "http://edge:80", "conditions": UNAVAILABLE}, "http://edge:80", Reason.REFERENCE_NOT_READY),
        ({}, "", Reason.REFERENCE_NOT_READY),
        (None, "", Reason.REFERENCE_NOT_FOUND),
    ],
)
def test_a_gateway_is_where_its_service_is(status: dict[str, Any] | None, url: str, reason: Reason | None):
    ref, meta = GatewayRef("edge"), {"name": "edge", "namespace": "default"}
    stored = None if status is None else Stored.from_dict(GATEWAY, {"metadata": meta, "spec": {}, "status": status})
    seen = Seen(NOW, found={read_gateway(ref): {stored.meta.key: stored} if stored else {}})
    found = resolve_gateway(ref, "spec.gatewayRef", seen, key_field="")
    assert found.url == url
    assert (found.problem and found.problem.reason) is reason
    assert isinstance(found, ResolvedGateway)
