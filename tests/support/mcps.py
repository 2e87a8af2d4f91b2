"""MCP objects for tests, and what to wait for."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from modelyard.kinds.mcp import MCP
from tests.support.audit import answered
from tests.support.operators import USER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from modelyard.core.resources import Resource
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

Json = dict[str, Any]

IMAGE = "example.com/tools:1"
_LOGGED_SECONDS = 30.0


def mcp(namespace: str, name: str = "tools", **spec: Any) -> Json:
    """Return a manifest."""
    return {
        "apiVersion": MCP.resource.api_version,
        "kind": MCP.resource.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"image": IMAGE, **spec},
    }


async def create(admin: RawClient, namespace: str, name: str = "tools", **spec: Any) -> Json:
    """Store an MCP object."""
    return await admin.create(MCP.resource.path(namespace), mcp(namespace, name, **spec))


async def edit(admin: RawClient, namespace: str, name: str = "tools", **spec: Any) -> Json:
    """Change the spec of an MCP object."""
    return await admin.patch(MCP.resource.path(namespace, name), {"spec": spec})


def ready(item: Json | None) -> bool:
    """Whether it says that it is ready, for the spec as it is now."""
    status = (item or {}).get("status", {})
    generation = (item or {}).get("metadata", {}).get("generation")
    return bool(status.get("ready")) and status.get("observedGeneration") == generation


def says(reason: str) -> Any:
    """Whether the Ready condition gives this reason, for the spec as it is now."""

    def check(item: Json | None) -> bool:
        found = condition(item, "Ready")
        generation = (item or {}).get("metadata", {}).get("generation")
        return found.get("reason") == reason and found.get("observedGeneration") == generation

    return check


def condition(item: Json | None, kind: str) -> Json:
    """Return one condition of an object; empty when it has none of this type."""
    entries = (item or {}).get("status", {}).get("conditions", [])
    return next((entry for entry in entries if entry["type"] == kind), {})


async def until_of_generation(
    recorder: Recorder,
    resource: Resource,
    namespace: str,
    name: str,
    predicate: Callable[[Json | None], bool],
    after: Json | None,
) -> Json:
    """Wait until an object is as wanted (as of an edit, when its answer is given), and return it."""
    least = after["metadata"]["generation"] if after else 1
    found = await recorder.wait_for(
        resource,
        namespace,
        name,
        lambda item: predicate(item) and (item or {})["metadata"]["generation"] >= least,
        # The garbage collector of Kubernetes learns of a new kind of owner only after half a minute.
        90.0,
    )
    assert found
    return found


async def until_ready(recorder: Recorder, namespace: str, name: str = "tools", after: Json | None = None) -> Json:
    """Wait until an MCP object is ready (as of an edit, when its answer is given), and return it."""
    return await until_of_generation(recorder, MCP.resource, namespace, name, ready, after)


async def expect_writes(audit_log: Path, namespace: str, expected: dict[str, int]) -> None:
    """Wait for the audit log, which is a moment behind, to hold exactly these writes of the operator."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LOGGED_SECONDS):
            while writes(audit_log, namespace) != expected:
                await asyncio.sleep(0.1)
    found = writes(audit_log, namespace)
    assert found == expected, f"{found} instead of {expected}"


def writes(audit_log: Path, namespace: str) -> Counter[str]:
    """Count what the operator wrote in a namespace, by verb and resource, from the audit log."""
    counted: Counter[str] = Counter()
    for entry in answered(audit_log, USER, namespace):
        target = entry["objectRef"]
        what = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        counted[f"{entry['verb']} {what}"] += 1
    return counted
