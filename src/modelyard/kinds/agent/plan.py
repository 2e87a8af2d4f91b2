"""The children of an Agent: a Deployment, and the Service in front of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core.plan import Child, Plan, Replicas
from modelyard.core.resources import DEPLOYMENT, SERVICE
from modelyard.kinds.agent.api import RESOURCE, container_ports
from modelyard.kinds.agent.environment import LLM_TLS_FOLDER, TLS_FOLDER, environment
from modelyard.kinds.agent.llm import LlmPlace, find_llm
from modelyard.kinds.agent.reads import config_refs
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import gateway_refs, labels, pods, secrets, workloads
from modelyard.kinds.shared.config_refs import config_hash

if TYPE_CHECKING:
    from modelyard.core.conditions import Problem
    from modelyard.kinds.agent.api import AgentSpec
    from modelyard.kinds.contract import Object, Seen

Json = dict[str, Any]

TLS_KEYS = ("tls.crt", "tls.key")


def plan(agent: Object[AgentSpec], seen: Seen) -> Plan:
    """Return the plan of one Agent; blocked while what its spec names is missing."""
    spec = agent.spec
    llm = find_llm(spec, seen)
    if problem := missing_secret(spec, seen):
        return Plan(blocked=problem, requeue_after=secrets.retry_missing(agent, seen.now))
    if llm.problem and (not llm.url or seen.one(Owned(DEPLOYMENT)) is None):
        return Plan(blocked=llm.problem)
    named = any(True for _ in config_refs(spec)) or llm.certificate
    return Plan(
        # The Service first: the pod is told its URL, and looks its address up when it starts.
        apply=(service(agent), deployment(agent, llm, seen)),
        requeue_after=secrets.ROTATION if named else None,
    )


def missing_secret(spec: AgentSpec, seen: Seen) -> Problem | None:
    """Return what is missing of the Secrets that fields name; None: nothing. Those in `env` are left to the kubelet."""
    key = spec.agent.llm.api_key_secret_ref or {}
    wanted = (
        () if key.get("optional") else ((key.get("name", ""), (key.get("key", ""),), "spec.agent.llm.apiKeySecretRef"),)
    )
    found = (
        secrets.find_problem(seen, name, keys, field)
        for name, keys, field in (
            (spec.tls.secret, TLS_KEYS, "spec.tls.secretRef"),
            (spec.agent.tls.secret, (), "spec.agent.tls.secretRef"),
            *wanted,
        )
    )
    return next((problem for problem in found if problem), None)


def deployment(agent: Object[AgentSpec], llm: LlmPlace, seen: Seen) -> Child:
    """Return the Deployment of the agent. It starts one pod, which clients may scale."""
    spec, name = agent.spec, agent.meta.name
    common = labels.common(RESOURCE, name)
    pod = {
        "containers": [container(agent, llm, seen)],
        "volumes": [
            *(pods.secret_volume(volume, secret) for volume, secret, _ in mounts(spec)),
            *([gateway_refs.trust_volume(llm.certificate)] if llm.certificate else ()),
        ],
        "imagePullSecrets": pods.names_of(spec.image_pull_secrets),
        "securityContext": pods.pod_security(spec.pod_security_context),
    }
    used = (*config_refs(spec), *gateway_refs.trusted(llm.certificate))
    template = pods.pod_template(common, pod, config_hash(used, seen))
    return workloads.deployment(name, common, labels.selector(name), Replicas(1), template)


def container(agent: Object[AgentSpec], llm: LlmPlace, seen: Seen) -> Json:
    """Return the container that runs the agent."""
    spec, ports = agent.spec, container_ports(agent.spec)
    body = {
        "name": "agent",
        "image": spec.image,
        "env": environment(spec, agent.meta, llm, seen),
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()],
        "resources": pods.resources(spec.resources),
        # Not every agent has a page of its health, and a kubelet cannot read a card. The operator does.
        "readinessProbe": pods.tcp_probe("http", periodSeconds=5, failureThreshold=3),
        "livenessProbe": pods.tcp_probe("http", periodSeconds=15, failureThreshold=3),
        "startupProbe": pods.tcp_probe("http", periodSeconds=2, failureThreshold=150),
        "volumeMounts": [
            *({"name": name, "mountPath": path, "readOnly": True} for name, _, path in mounts(spec)),
            *([gateway_refs.trust_mount()] if llm.certificate else ()),
        ],
        "securityContext": pods.container_security(spec.security_context),
    }
    return pods.without_empty(body)


def mounts(spec: AgentSpec) -> list[tuple[str, str, str]]:
    """Return volume, Secret and folder of each certificate that is mounted."""
    known = (("tls", spec.tls.secret, TLS_FOLDER), ("llm-tls", spec.agent.tls.secret, LLM_TLS_FOLDER))
    return [mount for mount in known if mount[1]]


def service(agent: Object[AgentSpec]) -> Child:
    """Return the Service in front of the agent."""
    name = agent.meta.name
    listed = [
        {"name": port, "port": number, "protocol": "TCP", "targetPort": port}
        for port, number in container_ports(agent.spec).items()
    ]
    spec = {"type": "ClusterIP", "selector": labels.selector(name), "ports": listed}
    return workloads.child(SERVICE, name, labels.common(RESOURCE, name), {"spec": spec})
