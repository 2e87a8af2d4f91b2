"""What plan and status of an Orchestrator both go by: what was found, and whether the bot may run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core import exec_limits
from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.kinds.orchestrator import discovered, listeners, rivals
from modelyard.kinds.orchestrator.discovered import ConfigFile, Place
from modelyard.kinds.orchestrator.environment import AGENTS
from modelyard.kinds.shared.gateway_refs import ResolvedGateway, resolve_gateway

if TYPE_CHECKING:
    from modelyard.core.objects import Json
    from modelyard.kinds.contract import Every, Object, Seen
    from modelyard.kinds.orchestrator.api import OrchestratorSpec


_HEARTBEAT: Final = "INFER_HEARTBEAT_ENABLED"
_ON: Final = ("1", "t", "true")
"""What the CLI takes for yes, in any case; everything else means no."""
_API_KEY: Final = "INFER_GATEWAY_API_KEY"


class Search(Struct, frozen=True):
    """What was looked for by labels, and found."""

    found: tuple[Place, ...] = ()
    problem: Problem | None = None
    """Why it cannot be looked for; None: it can."""


class OrchestratorDecision(Struct, frozen=True):
    """What was found, and whether the bot may run."""

    agents: Search | None
    """None: no Agents are looked for."""
    servers: Search | None
    """None: no MCP objects are looked for."""
    agents_variable: str
    """The URLs of all agents, listed and found; empty: there are none, or so many that only the file holds them."""
    files: tuple[ConfigFile, ...]
    """The files of the CLI."""
    gateway: ResolvedGateway
    """The gateway that the bot asks."""
    stopped: Problem | None
    """Why no pod may run; None: one should."""
    uncompared: tuple[str, ...] = ()
    """Older bots of other namespaces whose tokens the operator may not read."""


def decide(orchestrator: Object[OrchestratorSpec], seen: Seen) -> OrchestratorDecision:
    """Return what plan and status go by."""
    spec = orchestrator.spec
    agents = _search(discovered.agents(orchestrator), "spec.a2a.serviceDiscovery", seen)
    servers = _search(discovered.servers(orchestrator), "spec.mcp.serviceDiscovery", seen)
    listed = spec.a2a.agents if spec.a2a.enabled else ()
    all_agents = discovered.merged("static-agent", listed, agents.found if agents else ())
    urls = ",".join(place.url for place in all_agents)
    in_variable = exec_limits.fits(AGENTS, urls)
    files = [discovered.agents_file(all_agents)] if agents or not in_variable else []
    if spec.mcp.enabled and (spec.mcp.servers or servers):
        all_servers = discovered.merged("static-mcp", spec.mcp.servers, servers.found if servers else ())
        files.append(discovered.servers_file(all_servers))
    return OrchestratorDecision(
        agents=agents,
        servers=servers,
        agents_variable=urls if in_variable else "",
        files=tuple(files),
        gateway=find_gateway(spec, seen),
        stopped=nothing_to_do(spec) or rivals.rival(orchestrator, seen) or listeners.find_problem(orchestrator, seen),
        uncompared=tuple(rivals.uncompared(orchestrator, seen)),
    )


def _search(read: Every[Place] | None, field: str, seen: Seen) -> Search | None:
    if read is None:
        return None
    if problem := discovered.may_not_look(read, seen.policy, field):
        return Search(problem=problem)
    return Search(tuple(sorted(seen.every(read).values())))


def find_gateway(spec: OrchestratorSpec, seen: Seen) -> ResolvedGateway:
    """Return where the gateway is: what the spec says, or an object of the namespace."""
    ref = spec.gateway.gateway_ref
    if ref is None:
        return ResolvedGateway(spec.gateway.url, None)
    has_key = spec.gateway.api_key_secret_ref or any(entry.get("name") == _API_KEY for entry in spec.env)
    missing = "" if has_key else "spec.gateway.apiKeySecretRef"
    return resolve_gateway(ref, "spec.gateway.gatewayRef", seen, key_field=missing)


def nothing_to_do(spec: OrchestratorSpec) -> Problem | None:
    """Return a problem if the daemon would end at once, as it neither listens nor plans tasks; None: it does."""
    schedules = spec.tools.enabled and spec.tools.schedule
    beats = any(entry.get("name") == _HEARTBEAT and _may_be_on(entry) for entry in spec.env)
    if spec.channels.telegram.enabled or schedules or beats:
        return None
    return Problem(
        Reason.NOTHING_TO_RUN,
        "the daemon needs something to do, and neither spec.channels.telegram is enabled, nor spec.tools together with "
        "spec.tools.schedule",
        "enable one of them, or delete this object",
    )


def _may_be_on(entry: Json) -> bool:
    """Return whether the CLI takes a variable for yes. One that the kubelet looks up may hold it."""
    return bool(entry.get("valueFrom")) or str(entry.get("value", "")).lower() in _ON
