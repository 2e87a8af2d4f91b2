"""Where questions go."""

from __future__ import annotations

import pytest

from modelyard.cluster.target import Target, find_target, shell_address
from modelyard.core.resources import Key
from tests.page.objects import stored

CHAT = Target(Key("default", "chat"), 8080, "/v1", "chat")


def test_the_kinds_that_answer_are_asked_at_their_services() -> None:
    endpoint = {"endpoint": "http://chat.default.svc.cluster.local:8080/v1/chat/completions"}
    assert find_target(stored("InferenceService", "chat", {"modelRef": "yard"}, endpoint)) == CHAT
    deployed = stored(
        "ModelDeployment", "phi", {"modelName": "phi-4"}, {"endpoint": "http://phi.default.svc.cluster.local:8000"}
    )
    assert find_target(deployed) == Target(Key("default", "phi"), 8000, "/v1", "phi-4")
    gateway = stored("Gateway", "edge", status={"serviceUrl": "https://edge.default.svc.cluster.local:8443"})
    assert find_target(gateway) == Target(Key("default", "edge"), 8443, "/v1", is_tls=True)
    model = stored(
        "InferenceModel", "big", {"model": "qwen"}, {"endpoint": "http://big.default.svc.cluster.local:11434"}
    )
    assert find_target(model) == Target(Key("default", "big"), 11434, "/v1", "qwen")


@pytest.mark.parametrize(
    "item",
    [
        stored("MCP", "tools", status={"url": "http://tools.default.svc.cluster.local:8080"}),
        stored("Gateway", "edge"),
        stored("Gateway", "edge", status={"serviceUrl": "https://models.example.com"}),
        stored("Gateway", "edge", status={"serviceUrl": "http://a%2f..%2fsecrets.default.svc.cluster.local:80"}),
        stored("InferenceService", "voice", {"modelRef": "yard", "runtime": "personaplex"}),
    ],
    ids=["another kind", "no address", "not of the cluster", "a path in a name", "another protocol"],
)
def test_what_does_not_answer_is_not_asked(item: object) -> None:
    assert find_target(item) is None  # type: ignore[arg-type]


def test_the_api_server_leads_to_a_service() -> None:
    assert CHAT.proxy_path == "/api/v1/namespaces/default/services/chat:8080/proxy/v1"
    assert Target(Key("team", "edge"), 443, "/v1", is_tls=True).proxy_path.endswith("/services/https:edge:443/proxy/v1")


def test_a_shell_needs_a_forwarded_port_unless_the_service_is_on_this_machine() -> None:
    assert shell_address(CHAT, "http://127.96.0.7:8080") == ("http://127.96.0.7:8080/v1", "")
    assert shell_address(CHAT, "", " --context=prod")[1].endswith(" --context=prod")
    assert shell_address(CHAT, "") == (
        "http://127.0.0.1:8080/v1",
        "kubectl -n default port-forward service/chat 8080:8080",
    )
