"""The children of an Orchestrator: a Deployment of one pod, the files it reads, and perhaps a Service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.core.plan import Child, Plan, Replicas
from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, SERVICE
from modelyard.kinds.contract import Owned
from modelyard.kinds.orchestrator import cli_version
from modelyard.kinds.orchestrator.api import RESOURCE
from modelyard.kinds.orchestrator.environment import environment
from modelyard.kinds.orchestrator.reads import config_refs
from modelyard.kinds.shared import gateway_refs, labels, pods, secrets, workloads
from modelyard.kinds.shared.config_refs import config_hash

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.conditions import Problem
    from modelyard.core.resources import Ref
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.orchestrator.api import OrchestratorSpec
    from modelyard.kinds.orchestrator.decide import OrchestratorDecision

Json = dict[str, Any]

FOLDER: Final = "/home/infer/.infer"
"""Where the CLI looks for its files, in its image."""
RECEIVER_PORT: Final = "otlp-http"
_USER: Final = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}
"""The user of the image. It has a name there, and a kubelet cannot tell by a name that it is not root."""


def plan(orchestrator: Object[OrchestratorSpec], seen: Seen, decision: OrchestratorDecision) -> Plan:
    """Return the plan of one Orchestrator; blocked while what its spec names is missing."""
    spec = orchestrator.spec
    if problem := missing_secret(spec, seen):
        return Plan(blocked=problem, requeue_after=secrets.retry_missing(orchestrator, seen.now))
    gateway = decision.gateway
    if gateway.problem and (not gateway.url or seen.one(Owned(DEPLOYMENT)) is None):
        return Plan(blocked=gateway.problem)
    wanted = (
        # Before the pod, which would wait a minute for them.
        *config_maps(orchestrator, decision),
        deployment(orchestrator, seen, decision),
        *receiver(orchestrator),
    )
    named = any(True for _ in config_refs(spec)) or gateway.certificate
    return Plan(
        apply=wanted,
        delete=tuple(obsolete(wanted, seen)),
        requeue_after=secrets.ROTATION if named else None,
    )


def missing_secret(spec: OrchestratorSpec, seen: Seen) -> Problem | None:
    """Return what is missing of the Secrets that fields name; None: nothing. Those in `env` are left to the kubelet."""
    telegram = spec.channels.telegram
    wanted = {"spec.gateway.apiKeySecretRef": spec.gateway.api_key_secret_ref}
    if telegram.enabled:
        wanted["spec.channels.telegram.tokenSecretRef"] = telegram.token_secret_ref
        wanted["spec.channels.telegram.allowedUsersSecretRef"] = telegram.allowed_users_secret_ref
    found = (
        secrets.find_problem(seen, str(ref["name"]), (str(ref["key"]),), field)
        for field, ref in wanted.items()
        if ref and not ref.get("optional")
    )
    return next((problem for problem in found if problem), None)


def config_maps(orchestrator: Object[OrchestratorSpec], decision: OrchestratorDecision) -> list[Child]:
    """Return the files of the CLI, each in a ConfigMap of its own."""
    name, common = orchestrator.meta.name, labels.common(RESOURCE, orchestrator.meta.name)
    return [
        workloads.child(CONFIG_MAP, f"{name}-{each.suffix}", common, {"data": {each.file: each.text}})
        for each in decision.files
    ]


def deployment(orchestrator: Object[OrchestratorSpec], seen: Seen, decision: OrchestratorDecision) -> Child:
    """Return the Deployment of one pod. Telegram lets one program listen, so the old pod ends before the new starts."""
    spec, name = orchestrator.spec, orchestrator.meta.name
    common = labels.common(RESOURCE, name)
    user = _USER if seen.policy.chooses_users else {}
    pod = {
        "containers": [container(spec, decision)],
        "volumes": volumes(name, decision),
        "imagePullSecrets": pods.names_of(spec.image_pull_secrets),
        "securityContext": pods.pod_security({**user, **(spec.pod_security_context or {})}),
    }
    hashes = {each.annotation: each.digest for each in decision.files}
    used = (*config_refs(spec), *gateway_refs.trusted(decision.gateway.certificate))
    template = pods.pod_template(common, pod, {**hashes, **config_hash(used, seen)})
    replicas = Replicas(0 if decision.stopped else 1, fixed=True)
    return workloads.deployment(name, common, labels.selector(name), replicas, template, strategy="Recreate")


def volumes(name: str, decision: OrchestratorDecision) -> list[Json]:
    """Return the files of the CLI, and the certificate of a gateway that serves HTTPS."""
    files = [
        {"name": f"{each.suffix}-config", "configMap": {"name": f"{name}-{each.suffix}"}} for each in decision.files
    ]
    certificate = decision.gateway.certificate
    return [*files, gateway_refs.trust_volume(certificate)] if certificate else files


def mounts(decision: OrchestratorDecision) -> list[Json]:
    """Return where the container finds its volumes."""
    files = [
        {"name": f"{each.suffix}-config", "mountPath": f"{FOLDER}/{each.file}", "subPath": each.file, "readOnly": True}
        for each in decision.files
    ]
    return [*files, gateway_refs.trust_mount()] if decision.gateway.certificate else files


def container(spec: OrchestratorSpec, decision: OrchestratorDecision) -> Json:
    """Return the container that runs the CLI, by the entrypoint of its image: its path differs between versions."""
    port = spec.telemetry.receiver_port
    body = {
        "name": "orchestrator",
        "image": spec.image,
        "args": list(spec.args) or [cli_version.daemon(spec.image)],
        "env": environment(spec, decision),
        "ports": [{"name": RECEIVER_PORT, "containerPort": port, "protocol": "TCP"}] if port else [],
        "resources": pods.resources(spec.resources),
        "volumeMounts": mounts(decision),
        "securityContext": pods.container_security(spec.security_context),
    }
    return pods.without_empty(body)


def receiver(orchestrator: Object[OrchestratorSpec]) -> list[Child]:
    """Return the Service at which others send traces and metrics; empty: there is none."""
    port, name = orchestrator.spec.telemetry.receiver_port, orchestrator.meta.name
    if not port:
        return []
    listed = [{"name": RECEIVER_PORT, "port": port, "protocol": "TCP", "targetPort": RECEIVER_PORT}]
    spec = {"type": "ClusterIP", "selector": labels.selector(name), "ports": listed}
    return [workloads.child(SERVICE, f"{name}-receiver", labels.common(RESOURCE, name), {"spec": spec})]


def obsolete(wanted: Iterable[Child], seen: Seen) -> list[Ref]:
    """Return the children of features that were switched off."""
    kept = {(child.resource, child.name) for child in wanted}
    owned = (child for resource in (CONFIG_MAP, SERVICE) for child in seen.all(Owned(resource)))
    return [child.ref for child in owned if (child.resource, child.meta.name) not in kept]
