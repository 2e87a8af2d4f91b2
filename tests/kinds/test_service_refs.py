"""What a reference to an object of the namespace leads to: an address, a model, or a problem that names the field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from modelyard.core.objects import Stored
from modelyard.core.reasons import Reason
from modelyard.kinds.contract import Seen
from modelyard.kinds.inferenceservice.api import RESOURCE
from modelyard.kinds.modeldeployment.api import RESOURCE as MODEL_DEPLOYMENT
from modelyard.kinds.shared.gateway_refs import GATEWAY, GatewayRef, ResolvedGateway, read_gateway, resolve_gateway
from modelyard.kinds.shared.service_refs import (
    ResolvedService,
    ServedModel,
    ServiceRef,
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
    assert found == ServedModel(f"http://chat.default.svc.cluster.local:8080{url}", model, ready=False)


def test_a_zerfoo_service_is_an_address_and_a_model_too():
    meta = {"name": "chat", "namespace": "default"}
    status = {"conditions": [{"type": "PrimaryReady", "status": "True"}]}
    stored = Stored.from_dict(ZERFOO, {"metadata": meta, "spec": {"modelRef": "gemma-3-1b"}, "status": status})
    expected = ServedModel("http://chat-svc.default.svc.cluster.local:8080/v1", "gemma-3-1b", ready=True)
    assert served_model(stored) == expected


def test_a_model_deployment_is_known_by_its_endpoint():
    meta, ref = {"name": "chat", "namespace": "default"}, ServiceRef("chat", kind="ModelDeployment")
    body = {"metadata": meta, "spec": {"modelName": "gemma"}, "status": {"endpoint": ENDPOINT, "conditions": AVAILABLE}}
    expected = ServedModel("http://chat.default.svc.cluster.local:8080/v1", "gemma", ready=True)
    assert served_model(Stored.from_dict(MODEL_DEPLOYMENT, body)) == expected
    new = Stored.from_dict(MODEL_DEPLOYMENT, {**body, "status": {}})
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
    found = resolve_gateway(ref, "spec.gatewayRef", seen)
    assert found.url == url
    assert (found.problem and found.problem.reason) is reason
    assert isinstance(found, ResolvedGateway)
