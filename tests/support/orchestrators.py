"""Orchestrators for tests, and what to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.kinds.orchestrator import ORCHESTRATOR
from tests.support.mcps import ready, until_of_generation

if TYPE_CHECKING:
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

Json = dict[str, Any]

SECRET = "bot"
SEARCH = {"enabled": True, "serviceDiscovery": {"enabled": True, "selector": {"matchLabels": {"team": "office"}}}}
"""Agents that are found by a label."""


def orchestrator(namespace: str, name: str = "helper", secret: str = SECRET, **spec: Any) -> Json:
    """Return a manifest of a bot whose token is in this Secret."""
    telegram = {
        "enabled": True,
        "tokenSecretRef": {"name": secret, "key": "token"},
        "allowedUsersSecretRef": {"name": secret, "key": "users"},
    }
    plain = {
        "image": "ghcr.io/inference-gateway/cli:latest",
        "channels": {"telegram": telegram},
        "gateway": {"url": "http://gateway:8080"},
        "agent": {"model": "openai/small"},
    }
    return {
        "apiVersion": ORCHESTRATOR.resource.api_version,
        "kind": ORCHESTRATOR.resource.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {**plain, **spec},
    }


async def create_token(admin: RawClient, namespace: str, name: str = SECRET, token: str = "canary-token") -> None:
    """Store a Secret with a token."""
    body = {"metadata": {"name": name}, "stringData": {"token": token, "users": "1,2"}}
    await admin.create(f"/api/v1/namespaces/{namespace}/secrets", body)


async def create(admin: RawClient, namespace: str, name: str = "helper", **spec: Any) -> Json:
    """Store an Orchestrator, and a token of its own before it."""
    secret = f"bot-of-{name}"
    # Of two namespaces with one token, the younger would wait.
    await create_token(admin, namespace, secret, f"canary-token-of-{namespace}-{name}")
    return await admin.create(ORCHESTRATOR.resource.path(namespace), orchestrator(namespace, name, secret, **spec))


async def edit(admin: RawClient, namespace: str, name: str = "helper", **spec: Any) -> Json:
    """Change the spec of an Orchestrator."""
    return await admin.patch(ORCHESTRATOR.resource.path(namespace, name), {"spec": spec})


async def until_ready(recorder: Recorder, namespace: str, name: str = "helper", after: Json | None = None) -> Json:
    """Wait until an Orchestrator is ready (as of an edit, when its answer is given), and return it."""
    return await until_of_generation(recorder, ORCHESTRATOR.resource, namespace, name, ready, after)
