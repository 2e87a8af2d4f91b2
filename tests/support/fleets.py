"""InferenceHosts and InferenceModels for tests, and what to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.kinds.inferencehost import INFERENCE_HOST
from modelyard.kinds.inferencemodel import INFERENCE_MODEL
from modelyard.local.ports import free_ports
from tests.support import services
from tests.support.hostdaemon import HostDaemon
from tests.support.mcps import condition

if TYPE_CHECKING:
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

Json = dict[str, Any]

HOSTS = INFERENCE_HOST.resource
MODELS = INFERENCE_MODEL.resource
STUDIO = HostDaemon(total=1 << 44)
"""A daemon for the subjects of all namespaces."""
# Chosen before it serves, because the name of a slice holds it, and by each process, because tests run in several.
[STUDIO.port] = free_ports(1)
METAL = "mac"
"""The name of an InferenceService for Macs, of its Model, and of its InferenceModel."""
ADDRESS = "198.41.0.4"
"""What is published is never dialled in these tests, but it has to be public: only `localhost` is allowed besides."""


def slice_name(name: str = "qwen", port: int = STUDIO.port) -> str:
    """Return the name of the EndpointSlice of an InferenceModel."""
    return f"{name}-ipv4-{port}"


def host(name: str, port: int, address: str = ADDRESS, **spec: Any) -> Json:
    """Return the manifest of an InferenceHost whose daemon is on this machine."""
    head = {"apiVersion": HOSTS.api_version, "kind": HOSTS.kind, "metadata": {"name": name}}
    return {**head, "spec": {"endpoint": f"http://localhost:{port}", "address": address, **spec}}


def model(name: str = "qwen", **spec: Any) -> Json:
    """Return the manifest of an InferenceModel that needs no time to drain."""
    head = {"apiVersion": MODELS.api_version, "kind": MODELS.kind, "metadata": {"name": name}}
    quick = {"drainSeconds": 0, "failoverAfterSeconds": 2}
    return {**head, "spec": {"model": "org/qwen", "memory": "1Gi", "placement": quick, **spec}}


async def create_host(admin: RawClient, namespace: str, name: str, port: int, **spec: Any) -> Json:
    """Store an InferenceHost."""
    return await admin.create(HOSTS.path(namespace), host(name, port, **spec))


async def create_model(admin: RawClient, namespace: str, name: str = "qwen", **spec: Any) -> Json:
    """Store an InferenceModel."""
    return await admin.create(MODELS.path(namespace), model(name, **spec))


async def create_metal_service(admin: RawClient, namespace: str) -> Json:
    """Store a host, and an InferenceService for Macs of a Model that no other namespace has on the same daemon."""
    await create_host(admin, namespace, "laptop", STUDIO.port)
    source, hardware = f"https://models.invalid/{namespace}.gguf", {"accelerator": "metal", "memoryBudget": "1Gi"}
    await services.create_model(admin, namespace, METAL, source=source, hardware=hardware)
    return await services.create_service(admin, namespace, METAL, modelRef=METAL)


async def until_metal_ready(recorder: Recorder, namespace: str) -> Json:
    """Wait until the InferenceService for Macs is ready, and return it."""
    return await services.until_service(recorder, namespace, METAL)


async def create_pair(admin: RawClient, namespace: str) -> Json:
    """Store a host and a model of its own, which no other namespace has on the same daemon."""
    await create_host(admin, namespace, "studio", STUDIO.port)
    return await create_model(admin, namespace, model=f"org/{namespace}")


def is_ready(item: Json | None) -> bool:
    """Whether it says that it is ready, for the spec as it is now."""
    found, generation = condition(item, "Ready"), (item or {}).get("metadata", {}).get("generation")
    return found.get("status") == "True" and found.get("observedGeneration") == generation


async def until_ready(recorder: Recorder, namespace: str, name: str = "qwen") -> Json:
    """Wait until an InferenceModel is ready, and return it."""
    return await recorder.wait_for(MODELS, namespace, name, is_ready, 90.0)
