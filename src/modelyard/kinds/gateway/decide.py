"""The decision of a Gateway, for plan and status: its providers, its tool servers, and what stands in their way.

It has no memory: everything follows from the spec and from what is seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.kinds.gateway import config, mcp_servers, routes, routing_file, selected
from modelyard.kinds.gateway.providers import ResolvedProvider, resolve_providers, selected_provider

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.gateway.api import GatewaySpec


class GatewayDecision(Struct, frozen=True):
    """What the gateway is told, and what is missing for it."""

    providers: tuple[ResolvedProvider, ...]
    mcp_servers: tuple[str, ...]
    blocked: Problem | None
    """Why pods would not start, or would serve otherwise than asked; None: they may be rolled out."""
    lacking: Problem | None
    """What is missing although pods may run, such as a service that is not ready; None: nothing."""


def decide(gateway: Object[GatewaySpec], seen: Seen) -> GatewayDecision:
    """Return the decision of one Gateway."""
    spec = gateway.spec
    named = resolve_providers(spec.providers, seen)
    through = selected.url(gateway)
    return GatewayDecision(
        providers=(*named, *((selected_provider(through),) if through else ())),
        mcp_servers=mcp_servers.mcp_servers(gateway, seen),
        blocked=_find_obstacle(spec, named, seen),
        lacking=_first_problem(named) or selected.find_problem(gateway, seen) or routes.find_problem(spec, seen),
    )


def _find_obstacle(spec: GatewaySpec, providers: tuple[ResolvedProvider, ...], seen: Seen) -> Problem | None:
    nowhere = tuple(one for one in providers if not one.has_url)
    return config.find_problem(config.sources(spec), seen) or _routing_problem(spec, seen) or _first_problem(nowhere)


def _first_problem(providers: tuple[ResolvedProvider, ...]) -> Problem | None:
    return next((one.problem for one in providers if one.problem), None)


def _routing_problem(spec: GatewaySpec, seen: Seen) -> Problem | None:
    if not spec.routing.enabled:
        return None
    if spec.routing.config:
        return routing_file.find_problem(spec.routing.config, "spec.routing.config")
    field = "spec.routing.configMapRef"
    named = next(source.ref for source in config.sources(spec) if source.field == field)
    return routing_file.find_problem(named.value(seen), field)
