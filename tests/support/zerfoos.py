"""ZerfooInferenceServices for tests, and what to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.kinds.zerfooinferenceservice import ZERFOO_INFERENCE_SERVICE

if TYPE_CHECKING:
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

Json = dict[str, Any]

ZERFOOS = ZERFOO_INFERENCE_SERVICE.resource
TRIAL = "trial"
"""The service with a canary."""
HEALTH = {"path": "/healthz", "interval": "10s", "timeout": "2s"}


def zerfoo(namespace: str, name: str = "chat", **spec: Any) -> Json:
    """Return a manifest."""
    return {
        "apiVersion": ZERFOOS.api_version,
        "kind": ZERFOOS.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"modelRef": "tiny", "replicas": 1, "healthCheck": HEALTH, **spec},
    }


async def create(admin: RawClient, namespace: str, name: str = "chat", **spec: Any) -> Json:
    """Store a ZerfooInferenceService."""
    return await admin.create(ZERFOOS.path(namespace), zerfoo(namespace, name, **spec))


async def edit(admin: RawClient, namespace: str, name: str = "chat", **spec: Any) -> Json:
    """Change the spec of a ZerfooInferenceService."""
    return await admin.patch(ZERFOOS.path(namespace, name), {"spec": spec})


async def until_phase(
    recorder: Recorder,
    namespace: str,
    name: str = "chat",
    *,
    phase: str = "Ready",
    after: Json | None = None,
    **fields: Any,
) -> Json:
    """Wait until a service is in a phase (as of an edit, when its answer is given), and return it."""
    least = after["metadata"]["generation"] if after else 1

    def is_so(item: Json | None) -> bool:
        status = (item or {}).get("status", {})
        wanted = {"phase": phase, **fields}
        return status.get("observedGeneration", 0) >= least and wanted.items() <= status.items()

    found = await recorder.wait_for(ZERFOOS, namespace, name, is_so, 40.0)
    assert found
    return found


async def create_canary(admin: RawClient, namespace: str) -> Json:
    """Store a ZerfooInferenceService with a canary."""
    return await create(admin, namespace, TRIAL, canary={"modelRef": "new", "weight": 20})


async def until_weighted(recorder: Recorder, namespace: str) -> Json:
    """Wait until all pods of a canary are ready and its routers have been given its weight, and return the service.

    That is as far as it gets on simulated nodes: the pods of its routers answer nothing, so that no weight is in force.
    """
    said = (
        "the routers have yet to load the weights; if they never do, see that no NetworkPolicy keeps the operator from "
        f"port 8080 of the Service {TRIAL}-router"
    )
    found = await until_phase(recorder, namespace, TRIAL, phase="Progressing", message=said)
    assert [track["effectiveWeight"] for track in found["status"]["tracks"]] == [100, 0]
    assert found["status"]["rollout"]["weight"] == 20
    return found
