"""A gateway in front of real models: a small real gateway takes the place of the image, our engine is behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.yards import NAMED, ask, condition, is_ready

if TYPE_CHECKING:
    from tests.e2e.yards import Json, Yard

QUESTION = "Which model are you?"


def gateway(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "core.inference-gateway.com/v1alpha1",
        "kind": "Gateway",
        "metadata": {"name": name},
        "spec": spec,
    }


async def test_services_named_by_a_gateway_answer_through_it(yard: Yard) -> None:
    named = {"llamacpp": "yard", "openai": "yard-green"}
    providers = [{"name": name, "serviceRef": {"name": service}} for name, service in named.items()]
    await yard.apply(gateway("edge", server={"port": 8081}, providers=providers))
    found = await yard.until(is_ready, "gateway", "edge")
    assert found["status"]["modelCount"] == 2
    assert found["status"]["providerSummary"] == "llamacpp,openai"
    url = await yard.url("edge", 8081)
    for name, service in named.items():
        assert (await ask(url, QUESTION, model=f"{name}/{service}")).startswith(NAMED[service])
    await yard.kubectl("delete", "gateways.core.inference-gateway.com", "edge")


async def test_a_gateway_offers_every_service_with_the_label(yard: Yard) -> None:
    for service in NAMED:
        await yard.kubectl("label", "inferenceservice", service, "offered=yes")
    await yard.apply(gateway("all", providers=[], serviceSelector={"matchLabels": {"offered": "yes"}}))
    found = await yard.until(is_ready, "gateway", "all")
    assert found["status"]["providerSummary"] == "llamacpp"
    url = await yard.url("all")
    for service, said in NAMED.items():
        assert (await ask(url, QUESTION, model=f"llamacpp/{service}")).startswith(said)
    await yard.kubectl("delete", "gateways.core.inference-gateway.com", "all")


async def test_a_provider_that_is_not_there_is_named(yard: Yard) -> None:
    nowhere = {"name": "OLLAMA_API_URL", "value": "http://127.0.0.1:1/v1"}
    key = {"name": "OLLAMA_API_KEY", "value": "none"}
    await yard.apply(gateway("lost", providers=[{"name": "ollama", "env": [nowhere, key]}]))
    found = await yard.until(lambda body: condition(body).get("reason") == "ProviderFailing", "gateway", "lost")
    assert "provider ollama refuses its key, or cannot be reached" in condition(found)["message"]
    await yard.kubectl("delete", "gateways.core.inference-gateway.com", "lost")
