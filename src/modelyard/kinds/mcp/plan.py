"""The children of an MCP object: a Deployment, a Service and perhaps an autoscaler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core import names
from modelyard.core.conditions import Problem
from modelyard.core.plan import Child, Plan
from modelyard.core.reasons import Reason
from modelyard.core.resources import SECRET
from modelyard.kinds.contract import Named
from modelyard.kinds.mcp.api import RESOURCE
from modelyard.kinds.mcp.reads import config_refs, service_name, tls_secret
from modelyard.kinds.shared import autoscale, labels, pods, secrets, workloads
from modelyard.kinds.shared.config_refs import config_hash

if TYPE_CHECKING:
    from modelyard.core.plan import RequeueAfter
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.mcp.api import McpSpec

Json = dict[str, Any]

TLS_FOLDER = "/etc/tls"
TLS_KEYS = ("tls.crt", "tls.key")
TLS_HASH = "modelyard.dev/tls-hash"


def plan(mcp: Object[McpSpec], seen: Seen) -> Plan:
    """Return the plan of one MCP object; blocked while it has nothing to run, or its Secret is missing."""
    spec, name = mcp.spec, mcp.meta.name
    if problem := nothing_to_run(spec):
        return Plan(blocked=problem)
    if problem := secrets.find_problem(seen, tls_secret(spec), TLS_KEYS, "spec.server.tls.secretName"):
        return Plan(blocked=problem, requeue_after=secrets.retry_missing(mcp, seen.now))
    common = labels.common(RESOURCE, name)
    return Plan(
        apply=(
            deployment(mcp, seen),
            workloads.service(service_name(name), common, labels.selector(name), spec.server.port),
            *autoscale.autoscaler(name, common, spec.hpa.wanted, target=name),
        ),
        delete=autoscale.obsolete(spec.hpa.wanted, seen),
        requeue_after=autoscale.requeue_after(mcp.before, seen) or _rotation(spec),
    )


def _rotation(spec: McpSpec) -> RequeueAfter | None:
    """Return when to read again what the spec names; None: it names nothing."""
    return secrets.ROTATION if tls_secret(spec) or any(True for _ in config_refs(spec)) else None


def nothing_to_run(spec: McpSpec) -> Problem | None:
    """Return a problem if the image is a bare language runtime, which would exit at once; None: it is not."""
    if names.image_name(spec.image) != "node" or spec.server.command or spec.server.args:
        return None
    return Problem(
        Reason.NOTHING_TO_RUN,
        f"the image {spec.image} starts no MCP server by itself",
        "set spec.server.command (for example [npx, -y, your-mcp-server]) or a spec.image that starts one",
    )


def deployment(mcp: Object[McpSpec], seen: Seen) -> Child:
    """Return the Deployment of the server."""
    spec, name = mcp.spec, mcp.meta.name
    common = labels.common(RESOURCE, name)
    secret = tls_secret(spec)
    hashes = {TLS_HASH: secrets.digest(seen.one(Named(SECRET, secret)))} if secret else {}
    pod = {
        "containers": [container(spec)],
        "volumes": [pods.secret_volume(volume_name(secret), secret)] if secret else [],
        "imagePullSecrets": pods.names_of(spec.image_pull_secrets),
        "securityContext": pods.pod_security(spec.pod_security_context),
    }
    template = pods.pod_template(common, pod, {**hashes, **config_hash(config_refs(spec), seen)})
    replicas = autoscale.replicas(spec.replicas, spec.hpa.wanted, seen)
    return workloads.deployment(name, common, labels.selector(name), replicas, template)


def container(spec: McpSpec) -> Json:
    """Return the container that runs the server."""
    secret = tls_secret(spec)
    body = {
        "name": "mcp",
        "image": spec.image,
        "command": list(spec.server.command),
        "args": list(spec.server.args),
        "env": pods.unique_env(environment(spec), spec.env),
        "envFrom": list(spec.env_from),
        "ports": [{"name": "http", "containerPort": spec.server.port, "protocol": "TCP"}],
        "resources": pods.resources(spec.resources),
        "readinessProbe": pods.tcp_probe("http", periodSeconds=5, failureThreshold=3),
        "livenessProbe": pods.tcp_probe("http", periodSeconds=15, failureThreshold=3),
        "startupProbe": pods.tcp_probe("http", periodSeconds=2, failureThreshold=150),
        "volumeMounts": [{"name": volume_name(secret), "mountPath": TLS_FOLDER, "readOnly": True}] if secret else [],
        "securityContext": pods.container_security(spec.security_context),
    }
    return pods.without_empty(body)


def environment(spec: McpSpec) -> list[Json]:
    """Return the environment variables of the server, which docs/kinds/mcp.md lists."""
    server = spec.server
    told = {
        "SERVER_HOST": "0.0.0.0",  # noqa: S104 - inside a pod, where the kubelet and the Service must reach it
        "SERVER_PORT": str(server.port),
        "SERVER_PATH": server.path,
        "SERVER_READ_TIMEOUT": server.timeout,
        "SERVER_WRITE_TIMEOUT": server.timeout,
    }
    if tls_secret(spec):
        told |= {"SERVER_TLS_CERT_PATH": f"{TLS_FOLDER}/tls.crt", "SERVER_TLS_KEY_PATH": f"{TLS_FOLDER}/tls.key"}
    return [{"name": name, "value": value} for name, value in told.items()]


def volume_name(secret: str) -> str:
    """Return the name of the certificate's volume."""
    return names.dns_label(f"{secret}-volume")
