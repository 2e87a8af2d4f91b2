"""Which objects are drawn as connected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.page.links import Index, uses
from tests.page.objects import stored

if TYPE_CHECKING:
    from modelyard.core.objects import Stored

CHAT = stored("InferenceService", "chat", {"modelRef": "yard"}, labels={"tier": "gold"})
OTHER = stored("InferenceService", "other", {"modelRef": "yard"}, labels={"tier": "gold"}, namespace="team")
TOOLS = stored("MCP", "tools", status={"url": "http://tools-service.default.svc.cluster.local:8080/mcp"})
WRITER = stored(
    "Agent",
    "writer",
    {"agent": {"llm": {"gatewayRef": {"name": "edge"}}}},
    {"url": "http://writer.default.svc.cluster.local:8080"},
)

CASES = [
    (CHAT, ["Model/default/yard"]),
    (stored("ZerfooInferenceService", "z", {"modelRef": "gemma"}), []),
    (
        stored("ZerfooInferenceService", "z", {"modelRef": "a", "runtime": "llamacpp", "canary": {"modelRef": "b"}}),
        ["Model/default/a", "Model/default/b"],
    ),
    (
        stored(
            "Gateway",
            "edge",
            {
                "providers": [{"name": "openai"}, {"serviceRef": {"kind": "ModelDeployment", "name": "phi"}}],
                "serviceSelector": {"matchLabels": {"tier": "gold"}},
            },
            {
                "mcpServers": [
                    "http://tools-service.default.svc.cluster.local:8080/mcp",
                    "https://elsewhere.example/mcp",
                ]
            },
        ),
        ["InferenceService/default/chat", "MCP/default/tools", "ModelDeployment/default/phi"],
    ),
    (WRITER, ["Gateway/default/edge"]),
    (
        stored(
            "Orchestrator",
            "bot",
            {"gateway": {"gatewayRef": {"name": "edge"}}, "a2a": {"agents": ["http://[broken"]}},
            {"discoveredAgents": ["http://writer.default.svc.cluster.local:8080"]},
        ),
        ["Agent/default/writer", "Gateway/default/edge"],
    ),
    (
        stored("InferenceModel", "big", status={"assignments": [{"host": "mac-1"}, {"host": "mac-2"}]}),
        ["InferenceHost/default/mac-1", "InferenceHost/default/mac-2"],
    ),
    (stored("Model", "yard"), []),
]


def known() -> Index:
    index = Index()
    for item in (CHAT, OTHER, TOOLS, WRITER):
        index.add(item)
    return index


@pytest.mark.parametrize(
    ("item", "expected"), CASES, ids=lambda case: getattr(getattr(case, "resource", None), "kind", "")
)
def test_an_object_is_connected_with_what_it_refers_to_or_finds(item: Stored, expected: list[str]) -> None:
    assert list(uses(item, known())) == expected


def test_an_object_that_is_gone_is_not_found_any_more() -> None:
    index, gateway = known(), CASES[3][0]
    index.remove(CHAT)
    index.remove(TOOLS)
    assert uses(gateway, index) == ("ModelDeployment/default/phi",)


def test_an_object_that_lost_a_label_is_not_found_by_it() -> None:
    index, gateway = known(), CASES[3][0]
    index.add(stored("InferenceService", "chat", {"modelRef": "yard"}))
    assert "InferenceService/default/chat" not in uses(gateway, index)


def test_a_selector_that_makes_no_sense_finds_nothing() -> None:
    broken = stored("Gateway", "edge", {"serviceSelector": {"matchLabels": {"tier": 3}}})
    assert uses(broken, known()) == ()
