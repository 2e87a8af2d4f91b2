"""ModelDeployments for tests, and what to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.kinds.modeldeployment import MODEL_DEPLOYMENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

Json = dict[str, Any]

RESOURCE = MODEL_DEPLOYMENT.resource
SOURCE = "https://models.invalid/tiny.gguf"
"""No simulated pod fetches anything."""
KEY = "91e0095c"
"""Of the weights of this source, for llama.cpp."""
JOB_NAME = f"chat-download-{KEY}"
"""The Job that fetches them."""


def manifest(namespace: str, name: str = "chat", **spec: Any) -> Json:
    """Return the manifest of a ModelDeployment."""
    return {
        "apiVersion": RESOURCE.api_version,
        "kind": RESOURCE.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"modelName": "Chat", "modelSource": SOURCE, "engine": "llamacpp", **spec},
    }


async def create(admin: RawClient, namespace: str, name: str = "chat", **spec: Any) -> Json:
    """Store a ModelDeployment."""
    return await admin.create(RESOURCE.path(namespace), manifest(namespace, name, **spec))


async def edit(admin: RawClient, namespace: str, name: str = "chat", **spec: Any) -> Json:
    """Change the spec of a ModelDeployment."""
    return await admin.patch(RESOURCE.path(namespace, name), {"spec": spec})


def shows(least: int = 1, **fields: Any) -> Callable[[Json | None], bool]:
    """Whether the status has these values, for the spec as it is now and of this generation at least."""

    def check(item: Json | None) -> bool:
        if item is None:
            return False
        status, generation = item.get("status", {}), item["metadata"]["generation"]
        current = status.get("observedGeneration") == generation >= least
        return current and all(status.get(name) == value for name, value in fields.items())

    return check


async def until(
    recorder: Recorder, namespace: str, after: Json | None = None, *, name: str = "chat", **fields: Any
) -> Json:
    """Wait until the status has these values (as of an edit, when its answer is given), and return the object."""
    least = after["metadata"]["generation"] if after else 1
    found = await recorder.wait_for(RESOURCE, namespace, name, shows(least, **fields), 60.0)
    assert found
    return found


async def until_running(recorder: Recorder, namespace: str, after: Json | None = None, **fields: Any) -> Json:
    """Wait until it is Running, and return the object."""
    return await until(recorder, namespace, after, phase="Running", **fields)


def phases(recorder: Recorder, namespace: str) -> list[str]:
    """Return the phases that the object has shown, one after the other."""
    shown = [version.status["phase"] for version in recorder.history(RESOURCE, namespace, "chat") if version.status]
    return [phase for number, phase in enumerate(shown) if number == 0 or shown[number - 1] != phase]
