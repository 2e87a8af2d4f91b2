"""The reads of an Agent: its children, what its spec names, and the card of the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core.checks.agent_card import AgentCard
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.resources import DEPLOYMENT, POD, SECRET, SERVICE
from modelyard.kinds.agent import llm
from modelyard.kinds.contract import Asked, Owned
from modelyard.kinds.shared import workloads
from modelyard.kinds.shared.config_refs import ConfigRef, env_refs, secret_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.agent.api import AgentSpec
    from modelyard.kinds.contract import Object, Read, Seen

Json = dict[str, Any]

API_KEY = "apiKey"
"""The key of the Secret that the older `spec.agent.apiKey.secretRef` names."""


def reads(agent: Object[AgentSpec], seen: Seen) -> Iterator[Read]:
    """Name everything that plan and status depend on."""
    yield Owned(DEPLOYMENT)
    yield Owned(SERVICE)
    yield Owned(POD)
    yield from (ref.read for ref in config_refs(agent.spec))
    yield from llm.reads(agent.spec, seen)
    if question := card_check(agent, seen):
        yield question


def api_key(spec: AgentSpec) -> Json | None:
    """Return where the API key of the LLM is; None: nowhere."""
    if spec.agent.llm.api_key_secret_ref or not spec.agent.api_key.secret_ref:
        return spec.agent.llm.api_key_secret_ref
    return {"name": spec.agent.api_key.secret_ref, "key": API_KEY, "optional": True}


def config_refs(spec: AgentSpec) -> Iterator[ConfigRef]:
    """Return all keys of Secrets and ConfigMaps that the pods are made with."""
    yield from secret_key(api_key(spec))
    yield from env_refs(spec.env)
    yield from (ConfigRef(SECRET.kind, name) for name in (spec.tls.secret, spec.agent.tls.secret) if name)


def checked_template(agent: Object[AgentSpec]) -> str:
    """Return the fingerprint of the pod template that the stored card was read from; empty: there was none."""
    return str(agent.before.get("checkedTemplate", ""))


def card_check(agent: Object[AgentSpec], seen: Seen) -> Asked | None:
    """Return the check of the card; None: pods of an older template, or none, would answer it."""
    rollout = workloads.read_rollout(seen.one(Owned(DEPLOYMENT)))
    if not rollout.answers_for(checked_template(agent)):
        return None
    service, meta = seen.one(Owned(SERVICE)), agent.meta
    ip = str(service.spec.get("clusterIP", "")) if service else ""
    address = ServiceAddress(meta.namespace, meta.name, agent.spec.port, ip)
    return Asked(AgentCard(address, template=rollout.template, trust=agent.spec.tls.secret))
