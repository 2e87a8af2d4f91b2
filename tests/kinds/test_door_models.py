"""Which names a door has for a service, and which of two services gets a name that both could have."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.core.objects import Stored
from modelyard.kinds.inferenceservice.api import RESOURCE
from modelyard.kinds.shared.door_models import backends, door_model
from modelyard.kinds.shared.envoy import Address
from modelyard.kinds.shared.envoy_door import Backend, claims


def service(name: str, namespace: str = "default", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Stored:
    meta = {"name": name, "namespace": namespace, "creationTimestamp": created}
    return Stored.from_dict(
        RESOURCE, {"metadata": meta, "spec": {"modelRef": "weights", "runtime": "llamacpp", **spec}}
    )


def door(*services: Stored) -> list[Backend]:
    """Return the backends of services; each is at an address that tells which one it is."""
    found = [door_model(each) for each in services]
    return backends({model: Address(f"{model.service.namespace}.{model.service.name}", 1) for model in found if model})


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
