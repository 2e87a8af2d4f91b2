"""The pods of a service. They pass Pod Security `restricted` unless the user asks for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core import names
from modelyard.kinds.inferenceservice import naming
from modelyard.kinds.inferenceservice.api import CREATED
from modelyard.kinds.shared import gpu, pods

if TYPE_CHECKING:
    from modelyard.core.policy import Policy
    from modelyard.engines.contract import Engine
    from modelyard.kinds.contract import Object
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
    from modelyard.kinds.inferenceservice.resolved import Serving

Json = dict[str, Any]

HOME = "/home/modelyard"
FREE_PORTS = 1024
"""Below, only root may listen, unless the pod says otherwise. Text Generation Inference is used to 80."""
ANY_PORT = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
_DISK = "ephemeral-storage"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a folder of the container, where CUDA libraries look for it


def template(service: Object[InferenceServiceSpec], what: Serving, policy: Policy) -> Json:
    """Return the template of a service's pods."""
    spec = service.spec
    scratch = _scratch(what)
    pod = {
        "initContainers": list(what.storage.init),
        "containers": [container(spec, what, scratch)],
        "volumes": [*what.storage.volumes, *_volumes(scratch)],
        "imagePullSecrets": pods.names_of(spec.image_pull_secrets),
        "securityContext": security(spec, what, policy),
        "nodeSelector": spec.node_selector,
        "tolerations": gpu.tolerations(what.devices, spec.tolerations),
        "affinity": gpu.with_memory(what.devices, spec.resources.gpu_memory),
        "priorityClassName": naming.priority_class(spec),
        "runtimeClassName": spec.runtime_class_name,
        "enableServiceLinks": None if what.engine.service_links else False,
    }
    return pods.pod_template({**spec.pod_labels, **naming.of_pods(service)}, pod, notes(service))


def notes(service: Object[InferenceServiceSpec]) -> dict[str, str]:
    """Return the user's annotations, and when the service was created: the GPU queue must not be jumped."""
    created = service.meta.creation_timestamp
    return {**service.spec.pod_annotations, **({CREATED: created} if created else {})}


def container(spec: InferenceServiceSpec, what: Serving, scratch: dict[str, Json]) -> Json:
    """Return the container that runs the engine."""
    home = [{"name": "HOME", "value": HOME}] if HOME in scratch else []
    body = {
        "name": what.engine.container,
        "image": what.image,
        "command": list(spec.command or what.launch.command),
        "args": list(what.launch.args),
        "env": pods.unique_env(home, what.launch.env, spec.env),
        "ports": [{"name": "http", "containerPort": what.port, "protocol": "TCP"}],
        "resources": resources(spec, what),
        **probes(spec, what.engine),
        "volumeMounts": [*what.storage.mounts, *_mounts(scratch)],
        "securityContext": pods.container_security(spec.security_context),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return pods.without_empty(body)


def resources(spec: InferenceServiceSpec, what: Serving) -> Json:
    """Return requests of CPU and memory, and limits of GPUs and disk space, which are requests too."""
    asked = spec.resources
    requests = {"cpu": asked.cpu, "memory": asked.host_memory or asked.memory, _DISK: asked.ephemeral_storage}
    gpus = {what.devices.resource: str(what.devices.count)} if what.devices.count else {}
    limits = pods.without_empty({**gpus, _DISK: asked.ephemeral_storage})
    return pods.without_empty({"requests": pods.without_empty(requests), "limits": limits})


def probes(spec: InferenceServiceSpec, engine: Engine) -> Json:
    """Return the probes. A start may take half an hour: large models load slowly."""
    override = spec.probe_overrides
    return {
        "startupProbe": override.startup or _probe(engine, periodSeconds=10, failureThreshold=180),
        "livenessProbe": override.liveness or _probe(engine, periodSeconds=15, failureThreshold=3),
        "readinessProbe": override.readiness or _probe(engine, periodSeconds=10, failureThreshold=3),
    }


def _probe(engine: Engine, **timing: int) -> Json:
    if not engine.health:
        return pods.tcp_probe("http", timeoutSeconds=5, **timing)
    return {"httpGet": {"path": engine.health, "port": "http"}, "timeoutSeconds": 5, **timing}


def security(spec: InferenceServiceSpec, what: Serving, policy: Policy) -> Json:
    """Return as whom the pod runs: a number where the image is known, else whoever the image names, but not root."""
    chosen = what.known_image and policy.chooses_users and not pods.is_privileged(spec.security_context)
    user = {"runAsUser": what.engine.user} if chosen and what.engine.user else {}
    ports = {"sysctls": [ANY_PORT]} if what.port < FREE_PORTS else {}
    return pods.pod_security({**user, **policy.volume_group, **ports, **(spec.pod_security_context or {})})


def _scratch(what: Serving) -> dict[str, Json]:
    """Return the folders that the engine writes to, each with what kind of volume it is."""
    folders: dict[str, Json] = {}
    if what.engine.user is not None:
        folders |= {folder: {} for folder in (HOME, *what.engine.folders)}
    if what.engine.shared_memory and what.devices.count > 1:
        folders[SHARED_MEMORY] = {"medium": "Memory"}
    return folders


def _volumes(scratch: dict[str, Json]) -> list[Json]:
    return [{"name": _volume_name(folder), "emptyDir": kind} for folder, kind in scratch.items()]


def _mounts(scratch: dict[str, Json]) -> list[Json]:
    return [{"name": _volume_name(folder), "mountPath": folder} for folder in scratch]


def _volume_name(folder: str) -> str:
    return names.dns_label(folder.strip("/").replace("/", "-"))
