"""Gateways for tests, and what to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.kinds.gateway import GATEWAY
from tests.support.mcps import condition, says, until_of_generation

if TYPE_CHECKING:
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

Json = dict[str, Any]

OLLAMA = {"name": "ollama", "env": [{"name": "OLLAMA_API_URL", "value": "http://ollama.invalid/v1"}]}
"""A provider without a key."""


def gateway(namespace: str, name: str = "edge", **spec: Any) -> Json:
    """Return a manifest."""
    return {
        "apiVersion": GATEWAY.resource.api_version,
        "kind": GATEWAY.resource.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"image": "example.com/gateway:1", "providers": [OLLAMA], **spec},
    }


async def create(admin: RawClient, namespace: str, name: str = "edge", **spec: Any) -> Json:
    """Store a Gateway."""
    return await admin.create(GATEWAY.resource.path(namespace), gateway(namespace, name, **spec))


async def edit(admin: RawClient, namespace: str, name: str = "edge", **spec: Any) -> Json:
    """Change the spec of a Gateway."""
    return await admin.patch(GATEWAY.resource.path(namespace, name), {"spec": spec})


def ready(item: Json | None) -> bool:
    """Whether it says that it is ready, for the spec as it is now."""
    return says("Ready")(item) and condition(item, "Ready")["status"] == "True"


async def until_ready(recorder: Recorder, namespace: str, name: str = "edge", after: Json | None = None) -> Json:
    """Wait until a Gateway is ready (as of an edit, when its answer is given), and return it."""
    return await until_of_generation(recorder, GATEWAY.resource, namespace, name, ready, after)


async def until_says(recorder: Recorder, namespace: str, reason: str, name: str = "edge") -> Json:
    """Wait until the Ready condition of a Gateway gives this reason, and return the Gateway."""
    found = await recorder.wait_for(GATEWAY.resource, namespace, name, says(reason), 90.0)
    assert found
    return found
