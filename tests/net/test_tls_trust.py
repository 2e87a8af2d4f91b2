"""What a server must present comes from a Secret; whether that can be read says nothing of the server."""

from __future__ import annotations

import pytest

from modelyard.app import shake_hands
from modelyard.core.checks.mcp_handshake import McpHandshake
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.reasons import Reason
from modelyard.net.http_exchange import in_cluster
from tests.kube.scripted import client_of, serving, status

CHECK = McpHandshake(ServiceAddress("a", "tools", 8443), "/mcp", timeout=1.0, template="x", trust="tools-tls")


@pytest.mark.parametrize(
    ("code", "reason"),
    [(503, Reason.API_UNAVAILABLE), (403, Reason.FORBIDDEN), (404, Reason.SECRET_NOT_FOUND)],
)
async def test_a_secret_counts_as_missing_only_when_the_api_server_says_so(code: int, reason: Reason) -> None:
    async with serving(status(code)) as server, client_of(server) as client:
        answer = await shake_hands(client, CHECK, in_cluster)
    assert (answer.ok, answer.reason) == (False, reason)
