"""The environment of an Agent's container, which docs/kinds/agent.md lists.

Agents made with the Go ADK read names that begin with `A2A_`; the names without it are what the original operator sets,
and what other images may read. What users write in `spec.env` wins over names that the original never set, and gives
way to all others, as it does there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core.resources import SECRET
from modelyard.kinds.agent.api import agent_url
from modelyard.kinds.agent.llm import API_KEY_VARIABLE
from modelyard.kinds.agent.reads import api_key
from modelyard.kinds.contract import Named
from modelyard.kinds.shared import pods
from modelyard.kinds.shared.gateway_refs import AUTHORITY, CERTIFICATE, TRUST_ENV, TRUST_FOLDER, trusted
from modelyard.kinds.shared.telemetry import collector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.core.objects import Metadata
    from modelyard.kinds.agent.api import AgentSpec, McpClient, Telemetry
    from modelyard.kinds.agent.llm import LlmPlace
    from modelyard.kinds.contract import Seen

Json = dict[str, Any]

TLS_FOLDER = "/etc/tls"
LLM_TLS_FOLDER = "/etc/llm-tls"
SERVED_PROVIDER = "openai"
"""The provider of a model that an object of the cluster serves: all of them speak OpenAI's protocol."""
NO_KEY = "none"
"""What is sent to a model that wants no key: agents do not start without one."""

_LLM_TLS_FILES = {"tls.crt": "CERT_FILE", "tls.key": "KEY_FILE", "ca.crt": "CA_FILE"}


def environment(spec: AgentSpec, meta: Metadata, llm: LlmPlace, seen: Seen) -> list[Json]:
    """Return all variables; `llm` is where the LLM is."""
    original = {**_server(spec, meta), **_telemetry(spec.telemetry), **_mcp(spec.mcp), **_llm(spec, llm)}
    yielding = {**_added(spec), **_trust(llm, seen), **_client_tls(spec, seen), **_no_key(llm)}
    given = {entry.get("name") for entry in spec.env}
    # Behind those of the user: a header may refer to a variable that holds a token.
    added = {name: value for name, value in yielding.items() if name not in given}
    return pods.unique_env(spec.env, _listed(added), _listed(original), _key(spec))


def _listed(told: Mapping[str, str]) -> list[Json]:
    return [{"name": name, "value": value} for name, value in told.items() if value]


def _switch(on: bool) -> str:
    return "true" if on else "false"


def _server(spec: AgentSpec, meta: Metadata) -> dict[str, str]:
    secret = spec.tls.secret
    certificate = {
        "A2A_SERVER_TLS_CERT_PATH": f"{TLS_FOLDER}/tls.crt",
        "A2A_SERVER_TLS_KEY_PATH": f"{TLS_FOLDER}/tls.key",
    }
    return {
        "TIMEZONE": spec.timezone,
        "PORT": str(spec.port),
        "HOST": spec.host,
        "A2A_AGENT_URL": agent_url(meta.name, meta.namespace, spec),
        "READ_TIMEOUT": spec.read_timeout,
        "WRITE_TIMEOUT": spec.write_timeout,
        "IDLE_TIMEOUT": spec.idle_timeout,
        "LOG_LEVEL": spec.logging.level,
        "LOG_FORMAT": spec.logging.format,
        "QUEUE_ENABLED": _switch(spec.queue.enabled),
        "QUEUE_MAX_SIZE": str(spec.queue.max_size),
        "QUEUE_CLEANUP_INTERVAL": spec.queue.cleanup_interval,
        "TLS_ENABLED": _switch(bool(secret)),
        "TLS_SECRET_REF": secret,
        "AGENT_ENABLED": _switch(spec.agent.enabled),
        "AGENT_MAX_CONVERSATION_HISTORY": str(spec.agent.max_conversation_history),
        # Not of the original, but probes, Service and certificate go by them.
        "A2A_SERVER_PORT": str(spec.port),
        "A2A_SERVER_TLS_ENABLED": _switch(bool(secret)),
        **(certificate if secret else {}),
    }


def _added(spec: AgentSpec) -> dict[str, str]:
    """Return what the original never sets, under the names that agents read."""
    queue, llm = spec.queue, spec.agent.llm
    tasks = {
        "A2A_QUEUE_MAX_SIZE": str(queue.max_size or ""),
        "A2A_QUEUE_CLEANUP_INTERVAL": queue.cleanup_interval,
    }
    return {
        "A2A_TIMEZONE": spec.timezone,
        "A2A_DEBUG": _switch(spec.logging.level.lower() == "debug"),
        "A2A_SERVER_READ_TIMEOUT": spec.read_timeout,
        "A2A_SERVER_WRITE_TIMEOUT": spec.write_timeout,
        "A2A_SERVER_IDLE_TIMEOUT": spec.idle_timeout,
        **(tasks if queue.enabled else {}),
        "A2A_AGENT_CLIENT_MAX_CONVERSATION_HISTORY": str(spec.agent.max_conversation_history),
        "A2A_AGENT_CLIENT_SYSTEM_PROMPT": pods.verbatim(llm.system_prompt),
        "A2A_AGENT_CLIENT_CUSTOM_HEADERS": ",".join(f"{each.name}:{each.value}" for each in llm.custom_headers),
    }


def _client_tls(spec: AgentSpec, seen: Seen) -> dict[str, str]:
    """Return the files of the Secret that holds a client certificate, an authority to trust, or both."""
    secret = seen.one(Named(SECRET, name)) if (name := spec.agent.tls.secret) else None
    held = secret.part("data") if secret else {}
    return {
        f"A2A_AGENT_CLIENT_TLS_{variable}": f"{LLM_TLS_FOLDER}/{file}"
        for file, variable in _LLM_TLS_FILES.items()
        if held.get(file)
    }


def _no_key(llm: LlmPlace) -> dict[str, str]:
    return {API_KEY_VARIABLE: NO_KEY} if llm.is_ours else {}


def _trust(llm: LlmPlace, seen: Seen) -> dict[str, str]:
    """Return where the agent finds the certificate of a Gateway; empty: it speaks plain HTTP, or is none of ours."""
    if llm.certificate is None:
        return {}
    authority = next((ref.key for ref in trusted(llm.certificate) if ref.key == AUTHORITY and ref.value(seen)), "")
    return {**TRUST_ENV, "A2A_AGENT_CLIENT_TLS_CA_FILE": f"{TRUST_FOLDER}/{authority or CERTIFICATE}"}


def _telemetry(telemetry: Telemetry) -> dict[str, str]:
    on = {"TELEMETRY_ENABLED": _switch(telemetry.enabled), "A2A_TELEMETRY_ENABLED": _switch(telemetry.enabled)}
    if not telemetry.enabled:
        return on
    traces, metrics = telemetry.traces.otlp if telemetry.traces else None, telemetry.metrics
    used, page = collector(telemetry.traces, metrics), metrics.page
    return {
        **on,
        "A2A_OTEL_TRACES_EXPORTER": "otlp" if traces else "none",
        "A2A_OTEL_METRICS_EXPORTER": "otlp" if metrics.otlp else "prometheus" if page else "none",
        "A2A_OTEL_EXPORTER_OTLP_ENDPOINT": used.endpoint,
        "A2A_OTEL_EXPORTER_OTLP_PROTOCOL": used.protocol,
        "A2A_OTEL_EXPORTER_PROMETHEUS_HOST": page.host if page else "",
        "A2A_OTEL_EXPORTER_PROMETHEUS_PORT": str(page.port) if page else "",
    }


def _mcp(mcp: McpClient) -> dict[str, str]:
    if not mcp.enabled:
        return {"A2A_MCP_ENABLED": "false"}
    return {
        "A2A_MCP_ENABLED": "true",
        "A2A_MCP_SERVERS": ",".join(mcp.servers),
        "A2A_MCP_ENDPOINT": mcp.endpoint,
        "A2A_MCP_REFRESH_INTERVAL": mcp.refresh_interval,
        "A2A_MCP_DIAL_TIMEOUT": mcp.dial_timeout,
        "A2A_MCP_CALL_TIMEOUT": mcp.call_timeout,
        "A2A_MCP_MAX_RETRIES": str(mcp.max_retries),
        "A2A_MCP_RETRY_INTERVAL": mcp.retry_interval,
        "A2A_MCP_RETRY_MAX_INTERVAL": mcp.retry_max_interval,
    }


def _llm(spec: AgentSpec, place: LlmPlace) -> dict[str, str]:
    llm = spec.agent.llm
    headers = {
        f"A2A_AGENT_CLIENT_CUSTOM_HEADER_{number}_{part}": value
        for number, header in enumerate(llm.custom_headers)
        for part, value in (("NAME", header.name), ("VALUE", header.value))
    }
    return {
        **_model(llm.model, place.model),
        "A2A_AGENT_CLIENT_BASE_URL": place.url,
        "A2A_AGENT_CLIENT_MAX_TOKENS": str(llm.max_tokens),
        "A2A_AGENT_CLIENT_TEMPERATURE": llm.temperature,
        "A2A_AGENT_CLIENT_MAX_CHAT_COMPLETION_ITERATIONS": str(spec.agent.max_chat_completion_iterations),
        "A2A_AGENT_CLIENT_MAX_RETRIES": str(spec.agent.max_retries),
        **headers,
    }


def _model(written: str, served: str) -> dict[str, str]:
    """Return provider and model. The first part of what the user wrote is the provider, if there are two."""
    if served and not written:
        return {"A2A_AGENT_CLIENT_PROVIDER": SERVED_PROVIDER, "A2A_AGENT_CLIENT_MODEL": served}
    provider, slash, model = written.partition("/")
    return {
        "A2A_AGENT_CLIENT_PROVIDER": provider if slash else "",
        "A2A_AGENT_CLIENT_MODEL": model if slash else written,
    }


def _key(spec: AgentSpec) -> list[Json]:
    selector = api_key(spec)
    return [{"name": API_KEY_VARIABLE, "valueFrom": {"secretKeyRef": selector}}] if selector else []
