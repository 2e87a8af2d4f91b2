"""The pods of a gateway: one container, its probes, and the files that it reads."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from modelyard.core.quantities import quantity
from modelyard.kinds.gateway import config
from modelyard.kinds.gateway.api import IMAGE
from modelyard.kinds.gateway.env import (
    CA_FILE,
    POLICY_FOLDER,
    ROUTING_FOLDER,
    TLS_FOLDER,
    environment,
    routing_file_name,
)
from modelyard.kinds.gateway.naming import account_name, child_labels, routing_name
from modelyard.kinds.shared import pods
from modelyard.kinds.shared.config_refs import config_hash
from modelyard.kinds.shared.gateway_refs import CERTIFICATE

if TYPE_CHECKING:
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.gateway.api import GatewaySpec
    from modelyard.kinds.gateway.decide import GatewayDecision

Json = dict[str, Any]

USER: Final = 65532
"""The image names no user, so it would run as root, which `restricted` forbids. Its program runs as any."""
ROUTING_HASH: Final = "modelyard.dev/routing-hash"
HEALTH: Final = "/health"

_REQUESTS: Final = {"cpu": "100m", "memory": "256Mi"}
_LIMITS: Final = {"cpu": "2", "memory": "1Gi"}


def template(gateway: Object[GatewaySpec], seen: Seen, decision: GatewayDecision) -> Json:
    """Return the pod template. Its annotations change with everything that the container reads only at start."""
    spec, name = gateway.spec, gateway.meta.name
    hashes = config_hash((source.ref for source in config.sources(spec)), seen)
    if spec.routing.enabled and spec.routing.config:
        hashes = {**hashes, ROUTING_HASH: hashlib.sha256(spec.routing.config.encode()).hexdigest()[:16]}
    pod = {
        "containers": [container(spec, decision)],
        "serviceAccountName": account_name(spec, name),
        "volumes": [volume for volume, _ in _files(spec, name)],
        "securityContext": pods.pod_security(_user(seen.policy)),
        "enableServiceLinks": False,
    }
    return pods.pod_template(child_labels(name), pod, hashes)


def container(spec: GatewaySpec, decision: GatewayDecision) -> Json:
    """Return the container of the gateway."""
    body = {
        "name": "inference-gateway",
        "image": spec.image or IMAGE,
        "env": environment(spec, decision.mcp_servers, decision.providers),
        "ports": _ports(spec),
        "resources": resources(spec.resources),
        "startupProbe": {**_probe(spec), "periodSeconds": 2, "failureThreshold": 60},
        "readinessProbe": {**_probe(spec), "periodSeconds": 10},
        "livenessProbe": {**_probe(spec), "periodSeconds": 10, "failureThreshold": 6},
        # The endpoint is removed and SIGTERM sent at the same time, and the image takes no new request from then on.
        "lifecycle": {"preStop": {"sleep": {"seconds": pods.LEAVE_SECONDS}}},
        "volumeMounts": [mount for _, mount in _files(spec, "")],
        "securityContext": pods.container_security(None),
    }
    return pods.without_empty(body)


def resources(given: Json | None) -> Json:
    """Return the resources of the container: what the user states, and defaults that agree with it for the rest."""
    asked = given or {}
    requests, limits = dict(asked.get("requests") or {}), dict(asked.get("limits") or {})
    for name, amount in _REQUESTS.items():
        requests.setdefault(name, min(amount, limits.get(name, amount), key=quantity))
    for name, amount in _LIMITS.items():
        limits.setdefault(name, max(amount, requests[name], key=quantity))
    return {**asked, "requests": requests, "limits": limits}


def _ports(spec: GatewaySpec) -> list[Json]:
    ports = [{"name": "http", "containerPort": spec.server.port, "protocol": "TCP"}]
    if spec.telemetry.enabled and spec.telemetry.metrics.enabled:
        ports.append({"name": "metrics", "containerPort": spec.telemetry.metrics.port, "protocol": "TCP"})
    return ports


def _probe(spec: GatewaySpec) -> Json:
    scheme = {"scheme": "HTTPS"} if spec.server.tls.enabled else {}
    return {"httpGet": {"path": HEALTH, "port": "http", **scheme}, "timeoutSeconds": 5}


def _user(policy: Policy) -> Json | None:
    return {"runAsUser": USER, "runAsGroup": USER} if policy.chooses_users else None


def _files(spec: GatewaySpec, name: str) -> list[tuple[Json, Json]]:
    """Return the volumes of a pod, each with its mount."""
    files = []
    if spec.server.tls.enabled:
        files.append((_tls_volume(spec), _mount("inference-gateway-tls", TLS_FOLDER)))
    if spec.auth.enabled and (ref := spec.auth.oidc.ca_cert_ref):
        mount = {"name": "oidc-ca", "mountPath": CA_FILE, "subPath": str(ref["key"]), "readOnly": True}
        files.append((_config_volume("oidc-ca", str(ref.get("name", ""))), mount))
    if spec.routing.enabled:
        files.append((_routing_volume(spec, name), _mount("model-routing", ROUTING_FOLDER)))
    if spec.guardrails.enabled and (policies := spec.guardrails.config_map_ref.name):
        files.append((_config_volume("guardrails-policies", policies), _mount("guardrails-policies", POLICY_FOLDER)))
    return files


def _mount(name: str, folder: str) -> Json:
    return {"name": name, "mountPath": folder, "readOnly": True}


def _tls_volume(spec: GatewaySpec) -> Json:
    """Return a volume with both files under the names that the container is told, wherever they come from."""
    pairs = ((config.certificate_ref(spec), CERTIFICATE), (config.private_key_ref(spec), config.PRIVATE_KEY))
    parts = [{"secret": {"name": ref.name, "items": [{"key": ref.key, "path": path}]}} for ref, path in pairs]
    return {"name": "inference-gateway-tls", "projected": {"sources": parts}}


def _config_volume(volume: str, config_map: str) -> Json:
    return {"name": volume, "configMap": {"name": config_map}}


def _routing_volume(spec: GatewaySpec, name: str) -> Json:
    ref = spec.routing.config_map_ref
    if ref is None:
        return _config_volume("model-routing", routing_name(name))
    file = routing_file_name(spec)
    source = {"name": str(ref.get("name", "")), "items": [{"key": file, "path": file}]}
    return {"name": "model-routing", "configMap": source}
