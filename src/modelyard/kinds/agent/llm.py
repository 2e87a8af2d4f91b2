"""The LLM of an Agent: the URL that the spec names, or an object of the namespace that stands in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.kinds.shared.config_refs import ConfigRef
from modelyard.kinds.shared.gateway_refs import read_gateway, resolve_gateway, trusted
from modelyard.kinds.shared.service_refs import read_service, resolve_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.agent.api import AgentSpec
    from modelyard.kinds.contract import Named, Seen


API_KEY_VARIABLE: Final = "A2A_AGENT_CLIENT_API_KEY"


class LlmPlace(Struct, frozen=True):
    """Where the LLM is."""

    url: str = ""
    """Its base URL, with `/v1`; empty: not known."""
    model: str = ""
    """The model that is served there; empty: the user has to name one."""
    is_ours: bool = False
    """Whether it is an object of the cluster."""
    certificate: ConfigRef | None = None
    """The key of a Secret with the certificate of a Gateway; None: it speaks plain HTTP, or there is none of ours."""
    problem: Problem | None = None
    """Why it does not answer (yet); None: it does, or is none of ours."""


def reads(spec: AgentSpec, seen: Seen) -> Iterator[Named]:
    """Name the object that stands in place of a URL, and the certificate that it presents."""
    if spec.agent.llm.service_ref:
        yield read_service(spec.agent.llm.service_ref)
    if spec.agent.llm.gateway_ref:
        yield read_gateway(spec.agent.llm.gateway_ref)
        yield from (ref.read for ref in trusted(find_llm(spec, seen).certificate))


def has_key(spec: AgentSpec) -> bool:
    """Return whether the agent is given a key for its LLM, by a field or by a variable."""
    fields = spec.agent.llm.api_key_secret_ref or spec.agent.api_key.secret_ref
    return bool(fields) or any(entry.get("name") == API_KEY_VARIABLE for entry in spec.env)


def find_llm(spec: AgentSpec, seen: Seen) -> LlmPlace:
    """Return where the LLM is."""
    llm = spec.agent.llm
    if llm.service_ref:
        found = resolve_service(llm.service_ref, "spec.agent.llm.serviceRef", seen)
        served = found.served
        return LlmPlace(served.url if served else "", served.model if served else "", True, problem=found.problem)
    if llm.gateway_ref:
        missing = "" if has_key(spec) else "spec.agent.llm.apiKeySecretRef"
        gateway = resolve_gateway(llm.gateway_ref, "spec.agent.llm.gatewayRef", seen, key_field=missing)
        return LlmPlace(f"{gateway.url}/v1" if gateway.url else "", "", True, gateway.certificate, gateway.problem)
    return LlmPlace(llm.base_url)
