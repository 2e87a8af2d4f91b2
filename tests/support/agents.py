"""Agents for tests, and what to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.kinds.agent import AGENT
from tests.support.mcps import ready, until_of_generation

if TYPE_CHECKING:
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

Json = dict[str, Any]

IMAGE = "example.com/calendar:1"


def agent(namespace: str, name: str = "calendar", labels: dict[str, str] | None = None, **spec: Any) -> Json:
    """Return a manifest."""
    return {
        "apiVersion": AGENT.resource.api_version,
        "kind": AGENT.resource.kind,
        "metadata": {"namespace": namespace, "name": name, "labels": labels or {}},
        "spec": {"image": IMAGE, **spec},
    }


async def create(
    admin: RawClient, namespace: str, name: str = "calendar", labels: dict[str, str] | None = None, **spec: Any
) -> Json:
    """Store an Agent."""
    return await admin.create(AGENT.resource.path(namespace), agent(namespace, name, labels, **spec))


async def edit(admin: RawClient, namespace: str, name: str = "calendar", **spec: Any) -> Json:
    """Change the spec of an Agent."""
    return await admin.patch(AGENT.resource.path(namespace, name), {"spec": spec})


async def until_ready(recorder: Recorder, namespace: str, name: str = "calendar", after: Json | None = None) -> Json:
    """Wait until an Agent is ready (as of an edit, when its answer is given), and return it."""
    return await until_of_generation(recorder, AGENT.resource, namespace, name, ready, after)
