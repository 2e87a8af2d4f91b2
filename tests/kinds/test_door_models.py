"""Which names a door has for a service, and which of two services gets a name that both could have."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.core.objects import Stored
from modelyard.kinds.inferenceservice.api import RESOURCE
from modelyard.kinds.modeldeployment.api import RESOURCE as MODEL_DEPLOYMENT
from modelyard.kinds.shared.door_models import backends
from modelyard.kinds.shared.envoy import Address
from modelyard.kinds.shared.envoy_door import Backend, claims
from modelyard.kinds.shared.service_refs import offered_model
from modelyard.kinds.zerfooinferenceservice.api import RESOURCE as ZERFOO


def service(name: str, namespace: str = "default", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Stored:
    meta = {"name": name, "namespace": namespace, "creationTimestamp": created}
    return Stored.from_dict(
        RESOURCE, {"metadata": meta, "spec": {"modelRef": "weights", "runtime": "llamacpp", **spec}}
    )


def deployment(name: str, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Stored:
    meta = {"name": name, "namespace": "default", "creationTimestamp": created}
    return Stored.from_dict(MODEL_DEPLOYMENT, {"metadata": meta, "spec": {"modelName": "Weights", **spec}})


def zerfoo(name: str, **spec: Any) -> Stored:
    meta = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return Stored.from_dict(ZERFOO, {"metadata": meta, "spec": {"modelRef": "weights", "runtime": "zerfoo", **spec}})


def door(*services: Stored) -> list[Backend]:
    """Return the backends of services; each is at an address that tells which one it is."""
    found = [offered_model(each) for each in services]
    return backends({model: Address(f"{model.place.namespace}.{model.place.name}", 1) for model in found if model})


def names(of: Stored) -> tuple[str, ...]:
    return door(of)[0].names


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ("one", "weights")),
        ({"modelRef": "one"}, ("one",)),
        ({"extraArgs": ["--alias", "a,b", "--threads", "1"]}, ("one", "a", "b", "weights")),
        ({"extraArgs": ["--alias=a", "-a", "c"]}, ("one", "c", "weights")),
        ({"extraArgs": ["--alias"]}, ("one", "weights")),
        ({"extraArgs": None}, ("one", "weights")),
        ({"runtime": "tgi", "extraArgs": ["--served-model-name", "a"]}, ("one", "weights")),
        ({"runtime": "vllm"}, ("one", "weights")),
        # vLLM answers 404 to all other names.
        ({"runtime": "vllm", "extraArgs": ["--served-model-name", "a", "b", "--seed", "1"]}, ("a", "b")),
        ({"runtime": "vllm", "extraArgs": ["--served-model-name=a"]}, ("a",)),
    ],
)
def test_a_service_has_the_names_that_its_engine_takes(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert names(service("one", **spec)) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        # vLLM is told both names.
        ({}, ("one", "Weights")),
        ({"args": ["--served-model-name", "a", "b"]}, ("a", "b")),
        ({"engine": "llamacpp"}, ("one", "Weights")),
        ({"engine": "llamacpp", "args": ["--alias", "a"]}, ("one", "a")),
        ({"engine": "tgi"}, ("one", "Weights")),
    ],
)
def test_a_model_deployment_is_called_by_its_name_and_by_that_of_its_model(
    spec: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert names(deployment("one", **spec)) == expected


def test_a_model_deployment_that_is_deprecated_is_not_behind_the_door() -> None:
    assert door(deployment("one", deprecated=True)) == []


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [("zerfoo", ("one", "weights")), ("llamacpp", ("one", "weights")), ("vllm", ("one",))],
)
def test_a_zerfoo_service_is_reached_through_its_split(runtime: str, expected: tuple[str, ...]) -> None:
    (found,) = door(zerfoo("one", runtime=runtime))
    assert (found.names, found.address.host) == (expected, "default.one-svc")


def test_of_two_objects_that_claim_one_service_the_older_has_it() -> None:
    newer = deployment("one", created="2026-02-01T00:00:00Z", engine="llamacpp")
    assert [each.names for each in door(newer, service("one"))] == [("one", "weights")]


def test_an_engine_that_speaks_another_protocol_is_not_behind_the_door() -> None:
    assert door(service("voice", runtime="personaplex")) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "/v1"),
        ("/v1/chat/completions", "/v1"),
        ("/engines/llama/v1/embeddings", "/engines/llama/v1"),
        ("/api/v1", "/api/v1"),
        ("/generate", "/v1"),
        ("/v10/chat", "/v1"),
    ],
)
def test_the_api_is_where_the_endpoint_says(path: str, expected: str) -> None:
    assert door(service("one", endpoint={"path": path}))[0].path == expected


def test_the_list_of_models_tells_when_a_service_was_created() -> None:
    assert door(service("one", created="1970-01-01T00:01:00Z"))[0].created == 60


def test_the_name_of_a_service_is_never_that_of_an_older_alias_or_model() -> None:
    older = service("older", modelRef="newer", extraArgs=["--alias", "newer"])
    newer = service("newer", created="2026-02-01T00:00:00Z")
    assert [each.names for each in door(newer, older)] == [("older",), ("newer", "weights")]


def test_the_oldest_service_of_a_model_has_its_name() -> None:
    older, newer = service("older"), service("newer", created="2026-02-01T00:00:00Z")
    assert claims(door(newer, older))["weights"].address.host == "default.older"


def test_services_of_the_same_name_are_told_apart_by_namespace_and_the_default_one_goes_first() -> None:
    others = [service("one", "team", "2025-01-01T00:00:00Z"), service("one", "crew", "2024-01-01T00:00:00Z")]
    claimed = claims(door(*others, service("one")))
    assert {name: backend.address.host for name, backend in claimed.items()} == {
        "one": "default.one",
        "default/one": "default.one",
        "weights": "default.one",
        "crew/one": "crew.one",
        "team/one": "team.one",
    }
    assert claims(door(*others))["one"].address.host == "crew.one"
