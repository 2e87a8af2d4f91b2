"""The reads of an Orchestrator: its children, what its spec names or looks for, and other bots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, POD, SERVICE
from modelyard.kinds.contract import Owned
from modelyard.kinds.orchestrator import discovered, listeners, rivals
from modelyard.kinds.orchestrator.decide import find_gateway
from modelyard.kinds.shared.config_refs import ConfigRef, env_refs, secret_key
from modelyard.kinds.shared.gateway_refs import read_gateway, trusted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.orchestrator.api import OrchestratorSpec


def reads(orchestrator: Object[OrchestratorSpec], seen: Seen) -> Iterator[Read]:
    """Name everything that plan and status depend on."""
    for resource in (DEPLOYMENT, SERVICE, CONFIG_MAP, POD):
        yield Owned(resource)
    for search in (discovered.agents(orchestrator), discovered.servers(orchestrator)):
        if search:
            yield search
    yield from (ref.read for ref in config_refs(orchestrator.spec))
    if gateway := orchestrator.spec.gateway.gateway_ref:
        yield read_gateway(gateway)
        yield from (ref.read for ref in trusted(find_gateway(orchestrator.spec, seen).certificate))
    if own := rivals.bot_of(orchestrator.meta, orchestrator.spec):
        yield rivals.BOTS
        yield from (bot.secret_for(orchestrator.meta.namespace) for bot in (own, *rivals.elders(own, seen)))
        yield from listeners.reads(own, seen)


def config_refs(spec: OrchestratorSpec) -> Iterator[ConfigRef]:
    """Return all keys of Secrets and ConfigMaps that the pod is made with."""
    telegram = spec.channels.telegram
    if telegram.enabled:
        yield from secret_key(telegram.token_secret_ref)
        yield from secret_key(telegram.allowed_users_secret_ref)
    yield from secret_key(spec.gateway.api_key_secret_ref)
    yield from env_refs(spec.env)
