"""The environment of a gateway's container, under the names that its image reads. docs/kinds/gateway.md lists them.

`_ENABLED` was spelled `_ENABLE` up to release 0.21 of the operator; both are set, because images of both ages are in
use and neither minds the other name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.kinds.gateway.api import IMAGE
from modelyard.kinds.gateway.mcp_servers import polling, servers_variable
from modelyard.kinds.shared import pods

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.kinds.gateway.api import GatewaySpec
    from modelyard.kinds.gateway.providers import ResolvedProvider

Json = dict[str, Any]

TLS_FOLDER: Final = "/app/tls"
CA_FILE: Final = "/usr/local/share/ca-certificates/oidc-ca.crt"
ROUTING_FOLDER: Final = "/etc/inference-gateway/routing"
ROUTING_FILE: Final = "routing.yaml"
POLICY_FOLDER: Final = "/etc/inference-gateway/guardrails"

_FAIL_MODES: Final = {"deny": "closed", "allow": "open"}
"""The image compares only with `closed`: what the operator calls `deny` would let everything pass."""


def environment(spec: GatewaySpec, servers: tuple[str, ...], providers: Iterable[ResolvedProvider]) -> list[Json]:
    """Return all variables. Those of providers come last and win."""
    told = {
        "ENVIRONMENT": spec.environment,
        **_server(spec),
        **_telemetry(spec),
        **_switch("AUTH", on=spec.auth.enabled),
        **_mcp(spec, servers),
        **_routing(spec),
        **_guardrails(spec),
    }
    ours = [{"name": name, "value": value} for name, value in told.items()]
    return pods.unique_env(ours, _auth(spec), *(provider.env for provider in providers))


def _switch(name: str, *, on: bool) -> dict[str, str]:
    return dict.fromkeys((f"{name}_ENABLED", f"{name}_ENABLE"), str(on).lower())


def _server(spec: GatewaySpec) -> dict[str, str]:
    server = spec.server
    told = {
        # The image puts a colon and the port behind it, which makes no address of a bare one of IPv6.
        "SERVER_HOST": f"[{server.host}]" if ":" in server.host and "[" not in server.host else server.host,
        "SERVER_PORT": str(server.port),
        "SERVER_READ_TIMEOUT": server.timeouts.read,
        "SERVER_WRITE_TIMEOUT": server.timeouts.write,
        "SERVER_IDLE_TIMEOUT": server.timeouts.idle,
    }
    if server.tls.enabled:
        told |= {"SERVER_TLS_CERT_PATH": f"{TLS_FOLDER}/tls.crt", "SERVER_TLS_KEY_PATH": f"{TLS_FOLDER}/tls.key"}
    return told


def _telemetry(spec: GatewaySpec) -> dict[str, str]:
    block = spec.telemetry
    told = _switch("TELEMETRY", on=block.enabled)
    if not block.enabled:
        return told
    told["TELEMETRY_METRICS_PORT"] = str(block.metrics.port)
    if otlp := block.traces.exporter.otlp:
        told["TELEMETRY_TRACING_ENABLED"] = "true"
        told |= {"TELEMETRY_TRACING_OTLP_ENDPOINT": otlp.endpoint} if otlp.endpoint else {}
    return told


def _auth(spec: GatewaySpec) -> list[Json]:
    if not spec.auth.enabled:
        return []
    oidc = spec.auth.oidc
    told: list[Json] = [
        {"name": "AUTH_OIDC_ISSUER", "value": oidc.issuer_url},
        {"name": "AUTH_OIDC_CLIENT_ID", "value": oidc.client_id},
    ]
    if ref := oidc.client_secret_ref:
        told.append({"name": "AUTH_OIDC_CLIENT_SECRET", "valueFrom": {"secretKeyRef": ref}})
    if oidc.ca_cert_ref:
        told.append({"name": "SSL_CERT_FILE", "value": CA_FILE})
    return told


def _mcp(spec: GatewaySpec, servers: tuple[str, ...]) -> dict[str, str]:
    block = spec.mcp
    if not block.enabled:
        return {}
    return {
        **_switch("MCP", on=True),
        "MCP_EXPOSE": str(block.expose).lower(),
        "MCP_TOOL_MODE": block.tool_mode,
        "MCP_SERVERS": servers_variable(spec.image or IMAGE, servers),
        "MCP_CLIENT_TIMEOUT": block.timeouts.client,
        "MCP_DIAL_TIMEOUT": block.timeouts.dial,
        "MCP_TLS_HANDSHAKE_TIMEOUT": block.timeouts.tls_handshake,
        "MCP_RESPONSE_HEADER_TIMEOUT": block.timeouts.response_header,
        "MCP_REQUEST_TIMEOUT": block.timeouts.request,
        **polling(spec),
    }


def routing_file_name(spec: GatewaySpec) -> str:
    """Return the name of the routing file below its folder."""
    ref = spec.routing.config_map_ref
    return str(ref["key"]) if ref else ROUTING_FILE


def _routing(spec: GatewaySpec) -> dict[str, str]:
    if not spec.routing.enabled:
        return {}
    return {"ROUTING_ENABLED": "true", "ROUTING_CONFIG_PATH": f"{ROUTING_FOLDER}/{routing_file_name(spec)}"}


def _guardrails(spec: GatewaySpec) -> dict[str, str]:
    block = spec.guardrails
    if not block.enabled:
        return {}
    told = {"GUARDRAILS_ENABLED": "true", "GUARDRAILS_FAIL_MODE": _FAIL_MODES[block.fail_mode]}
    if block.config_map_ref.name:
        told["GUARDRAILS_POLICY_DIR"] = POLICY_FOLDER
    if block.external_url:
        told |= {"GUARDRAILS_EXTERNAL_URL": block.external_url, "GUARDRAILS_EXTERNAL_TIMEOUT": block.external_timeout}
    return told
