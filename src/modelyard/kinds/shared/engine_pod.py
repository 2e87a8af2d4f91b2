"""The pod of an engine, as the spec of an InferenceService describes it, without labels and annotations.

InferenceService and the kinds that run engines as it does build their pod templates with it. It passes Pod Security
`restricted` unless the user asks for more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core import names
from modelyard.kinds.shared import gpu, pods

if TYPE_CHECKING:
    from modelyard.core.policy import Policy
    from modelyard.engines.contract import Engine
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
    from modelyard.kinds.shared.resolved_pod import ResolvedPod

Json = dict[str, Any]

HOME = "/home/modelyard"
FIRST_UNPRIVILEGED_PORT = 1024
"""Below, only root may listen, unless a sysctl of the pod allows it. Users of TGI are used to port 80."""
ALLOW_ANY_PORT = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
_DISK = "ephemeral-storage"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a folder of the container, where CUDA libraries look for it
ANSWER_SECONDS = 20
"""How long a pod still takes requests whose server cuts off its answers on SIGTERM: most are complete by then.

A longer one would also be a longer gap where the new pod waits for the GPU of the old one.
"""
_EXIT_SECONDS = 15
"""What is left of the grace period for the server itself to end."""


def pod_spec(spec: InferenceServiceSpec, resolved: ResolvedPod, policy: Policy, priority_class: str = "") -> Json:
    """Return the spec of a pod, with empty fields. Without a PriorityClass it has that of the cluster."""
    scratch = _scratch_folders(resolved)
    return {
        "initContainers": list(resolved.storage.init),
        "containers": [container(spec, resolved, scratch)],
        "volumes": [*resolved.storage.volumes, *_volumes(scratch)],
        "imagePullSecrets": pods.names_of(spec.image_pull_secrets),
        "securityContext": security_context(spec, resolved, policy),
        "nodeSelector": spec.node_selector,
        "tolerations": gpu.tolerations(resolved.devices, spec.tolerations),
        "affinity": gpu.memory_affinity(resolved.devices, spec.resources.gpu_memory),
        "priorityClassName": priority_class,
        "runtimeClassName": spec.runtime_class_name,
        "enableServiceLinks": None if resolved.engine.service_links else False,
        "terminationGracePeriodSeconds": _sleep_seconds(resolved) + resolved.launch.finishes + _EXIT_SECONDS,
    }


def container(spec: InferenceServiceSpec, resolved: ResolvedPod, scratch: dict[str, Json]) -> Json:
    """Return the container that runs the engine."""
    home = [{"name": "HOME", "value": HOME}] if HOME in scratch else []
    body = {
        "name": resolved.engine.container,
        "image": resolved.image,
        "command": list(spec.command or resolved.launch.command),
        "args": list(resolved.launch.args),
        "env": pods.unique_env(home, resolved.launch.env, spec.env),
        "ports": [{"name": "http", "containerPort": resolved.port, "protocol": "TCP"}],
        "resources": resources(spec, resolved),
        **probes(spec, resolved.engine),
        # The endpoint is removed and SIGTERM sent at the same time. A sleep needs no program in the image.
        "lifecycle": {"preStop": {"sleep": {"seconds": _sleep_seconds(resolved)}}},
        "volumeMounts": [*resolved.storage.mounts, *_mounts(scratch)],
        "securityContext": pods.container_security(spec.security_context),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return pods.without_empty(body)


def resources(spec: InferenceServiceSpec, resolved: ResolvedPod) -> Json:
    """Return the requests of CPU and memory, and the limits of GPUs and disk space, which are requests too."""
    asked = spec.resources
    requests = {"cpu": asked.cpu, "memory": asked.host_memory or asked.memory, _DISK: asked.ephemeral_storage}
    gpus = {resolved.devices.resource: str(resolved.devices.count)} if resolved.devices.count else {}
    limits = pods.without_empty({**gpus, _DISK: asked.ephemeral_storage})
    return pods.without_empty({"requests": pods.without_empty(requests), "limits": limits})


def probes(spec: InferenceServiceSpec, engine: Engine) -> Json:
    """Return the probes. The startup probe allows half an hour: large models load slowly."""
    override = spec.probe_overrides
    return {
        "startupProbe": override.startup or _probe(engine, periodSeconds=10, failureThreshold=180),
        "livenessProbe": override.liveness or _probe(engine, periodSeconds=15, failureThreshold=3),
        "readinessProbe": override.readiness or _probe(engine, periodSeconds=10, failureThreshold=3),
    }


def _sleep_seconds(resolved: ResolvedPod) -> int:
    return pods.LEAVE_SECONDS if resolved.launch.finishes else ANSWER_SECONDS


def _probe(engine: Engine, **timing: int) -> Json:
    if not engine.health:
        return pods.tcp_probe("http", timeoutSeconds=5, **timing)
    return {"httpGet": {"path": engine.health, "port": "http"}, "timeoutSeconds": 5, **timing}


def security_context(spec: InferenceServiceSpec, resolved: ResolvedPod, policy: Policy) -> Json:
    """Return the securityContext of the pod. runAsUser is set for known images; others run as the user they name."""
    chosen = resolved.known_image and policy.chooses_users and not pods.is_privileged(spec.security_context)
    user = {"runAsUser": resolved.engine.user} if chosen and resolved.engine.user else {}
    ports = {"sysctls": [ALLOW_ANY_PORT]} if resolved.port < FIRST_UNPRIVILEGED_PORT else {}
    return pods.pod_security({**user, **policy.volume_group, **ports, **(spec.pod_security_context or {})})


def _scratch_folders(resolved: ResolvedPod) -> dict[str, Json]:
    """Return the folders that the engine writes to, each with its emptyDir."""
    folders: dict[str, Json] = {}
    if resolved.engine.user is not None:
        folders |= {folder: {} for folder in (HOME, *resolved.engine.folders)}
    if resolved.engine.shared_memory and resolved.devices.count > 1:
        folders[SHARED_MEMORY] = {"medium": "Memory"}
    return folders


def _volumes(scratch: dict[str, Json]) -> list[Json]:
    return [{"name": _volume_name(folder), "emptyDir": kind} for folder, kind in scratch.items()]


def _mounts(scratch: dict[str, Json]) -> list[Json]:
    return [{"name": _volume_name(folder), "mountPath": folder} for folder in scratch]


def _volume_name(folder: str) -> str:
    return names.dns_label(folder.strip("/").replace("/", "-"))
