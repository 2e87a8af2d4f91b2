"""The environment of an Orchestrator's container, which docs/kinds/orchestrator.md lists.

The CLI reads the setting `a.b` from the variable `INFER_A_B`. What users write in `spec.env` gives way to what follows
from fields, as in the original operator, but for what that never sets: the system prompt under the names that the CLI
reads, and where it finds the certificate of its gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.core.quantities import seconds
from modelyard.kinds.orchestrator import cli_version
from modelyard.kinds.shared import pods
from modelyard.kinds.shared.gateway_refs import TRUST_ENV
from modelyard.kinds.shared.telemetry import collector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.kinds.orchestrator.api import Channels, OrchestratorSpec, Telemetry
    from modelyard.kinds.orchestrator.decide import OrchestratorDecision

Json = dict[str, Any]

AGENTS: Final = "INFER_A2A_AGENTS"
BOT_TOKEN: Final = "INFER_CHANNELS_TELEGRAM_BOT_TOKEN"  # noqa: S105 - the name of a variable


def environment(spec: OrchestratorSpec, decision: OrchestratorDecision) -> list[Json]:
    """Return all variables."""
    told = {
        "INFER_LOGGING_STDOUT": "true",
        "INFER_GATEWAY_RUN": "false",
        **_telemetry(spec.telemetry),
        **_channels(spec.channels),
        "INFER_GATEWAY_URL": decision.gateway.url,
        "INFER_AGENT_MODEL": spec.agent.model,
        "INFER_TOOLS_ENABLED": _switch(spec.tools.enabled),
        "INFER_TOOLS_SCHEDULE_ENABLED": _switch(spec.tools.schedule),
        "INFER_A2A_ENABLED": _switch(spec.a2a.enabled),
        # It overrides the file of agents, so it has to hold all of them, or none.
        AGENTS: decision.agents_variable,
    }
    yielding = {**_prompts(spec), **(TRUST_ENV if decision.gateway.certificate else {})}
    return pods.unique_env(_listed(yielding), spec.env, _listed(told), _secrets(spec))


def _listed(told: Mapping[str, str]) -> list[Json]:
    return [{"name": name, "value": value} for name, value in told.items() if value]


def _switch(on: bool | None) -> str:
    """Return a setting of yes or no; empty: it is left to the CLI."""
    return "" if on is None else "true" if on else "false"


def _prompts(spec: OrchestratorSpec) -> dict[str, str]:
    """Return the system prompt, which sessions of channels read from a variable of their own."""
    prompt = pods.verbatim(spec.agent.system_prompt)
    if cli_version.reads_old_prompt(spec.image):
        return {"INFER_AGENT_SYSTEM_PROMPT": prompt}
    return {"INFER_PROMPTS_AGENT_SYSTEM_PROMPT": prompt, "INFER_PROMPTS_AGENT_SYSTEM_PROMPT_REMOTE": prompt}


def _telemetry(telemetry: Telemetry) -> dict[str, str]:
    on = {"INFER_TELEMETRY_ENABLED": _switch(telemetry.enabled)}
    if not telemetry.enabled:
        return on
    port = telemetry.receiver_port
    return {
        **on,
        "INFER_TELEMETRY_RECEIVER_ADDRESS": f"0.0.0.0:{port}" if port else "",
        "INFER_TELEMETRY_OTLP_ENDPOINT": collector(telemetry.traces, telemetry.metrics).endpoint,
    }


def _channels(channels: Channels) -> dict[str, str]:
    telegram = channels.telegram
    numbers = {
        "INFER_CHANNELS_MAX_WORKERS": channels.max_workers,
        "INFER_CHANNELS_IMAGE_RETENTION": channels.image_retention,
        "INFER_CHANNELS_TELEGRAM_POLL_TIMEOUT": int(seconds(telegram.poll_timeout)) if telegram.poll_timeout else None,
    }
    return {
        "INFER_CHANNELS_ENABLED": _switch(telegram.enabled),
        "INFER_CHANNELS_REQUIRE_APPROVAL": _switch(channels.require_approval),
        "INFER_CHANNELS_TELEGRAM_ENABLED": _switch(telegram.enabled),
        **{name: str(number) for name, number in numbers.items() if number is not None},
    }


def _secrets(spec: OrchestratorSpec) -> list[Json]:
    """Return the variables that the kubelet takes from Secrets."""
    telegram = spec.channels.telegram
    sources = {
        BOT_TOKEN: telegram.token_secret_ref if telegram.enabled else None,
        "INFER_CHANNELS_TELEGRAM_ALLOWED_USERS": telegram.allowed_users_secret_ref if telegram.enabled else None,
        "INFER_GATEWAY_API_KEY": spec.gateway.api_key_secret_ref,
    }
    return [{"name": name, "valueFrom": {"secretKeyRef": source}} for name, source in sources.items() if source]
