"""The MCP objects that both the operator and the floor are given, always created in the same way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from modelyard.core.resources import Key
from modelyard.kinds.mcp import MCP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kube.client import Client

NAMESPACE = "default"
AT_ONCE = 16
"""How many requests are in flight, here and in the floor."""


def key(number: int) -> Key:
    """Return where an object is stored."""
    return Key(NAMESPACE, f"bench-{number:04}")


def manifest(number: int) -> dict[str, Any]:
    """Return an object as a user would write it."""
    return {
        "apiVersion": MCP.resource.api_version,
        "kind": MCP.resource.kind,
        "metadata": {"namespace": NAMESPACE, "name": key(number).name},
        "spec": {
            "image": "registry.example.com/tools:1.0",
            "server": {"port": 3000, "args": ["--verbose"]},
            "env": [{"name": "REGION", "value": "north"}],
        },
    }


async def create_all(client: Client, count: int) -> None:
    """Create so many objects."""
    numbers = iter(range(count))
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(_create(client, numbers))


async def _create(client: Client, numbers: Iterator[int]) -> None:
    for number in numbers:
        await client.create(MCP.resource, manifest(number))
