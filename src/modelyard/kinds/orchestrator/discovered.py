"""The agents and tool servers of an Orchestrator: those that the spec lists, and those that it finds by their labels.

The CLI reads both from files, which become ConfigMaps. A file that is mounted by itself is never renewed, so a hash of
it restarts the pod.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml
from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.kinds.agent.api import RESOURCE as AGENT
from modelyard.kinds.agent.api import AgentSpec, agent_url
from modelyard.kinds.contract import Every
from modelyard.kinds.mcp.api import RESOURCE as MCP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.objects import Stored
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object
    from modelyard.kinds.orchestrator.api import OrchestratorSpec

Json = dict[str, Any]

_WITHIN: Final = 5.0
"""Seconds that a change may wait: each change of the set restarts the bot, so many in a row should be one."""
_PORTS: Final = {"http": 80, "https": 443}
_MCP_PATH: Final = "/mcp"
# Not urlsplit, which raises an error for some URLs that only look like one.
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[^]]*]|[^[:/?#]+)(:(?P<port>\d+))?(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?"
)


class Place(Struct, frozen=True, order=True):
    """An agent or a tool server, and where it is."""

    name: str
    url: str


class ConfigFile(Struct, frozen=True):
    """A file of the CLI, as a ConfigMap holds it and a pod mounts it."""

    file: str
    """Its name, in the ConfigMap and in the folder of the CLI."""
    suffix: str
    """What the name of the ConfigMap ends with."""
    annotation: str
    """The annotation of the pod template that holds its hash."""
    text: str

    @property
    def digest(self) -> str:
        """The hash of its text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def agent_place(agent: Stored) -> Place | None:
    """Return where an Agent is; None: it is being deleted, or its spec cannot be read.

    Whether it is ready does not matter: the CLI asks again by itself, and each flap would restart the bot.
    """
    if agent.meta.deleting:
        return None
    try:
        spec = msgspec.json.decode(agent.parts["spec"], type=AgentSpec)
    except msgspec.ValidationError:
        return None
    return Place(agent.meta.name, agent_url(agent.meta.name, agent.meta.namespace, spec))


def mcp_place(mcp: Stored) -> Place | None:
    """Return where an MCP object is; None: it has no URL yet, or is being deleted."""
    url = str(mcp.status.get("url", ""))
    return None if mcp.meta.deleting or not _URL.match(url) else Place(mcp.meta.name, url)


def agents(orchestrator: Object[OrchestratorSpec]) -> Every[Place] | None:
    """Return the read of the Agents that the spec looks for; None: it looks for none."""
    a2a = orchestrator.spec.a2a
    wanted = a2a.service_discovery if a2a.enabled else None
    if wanted is None or not wanted.enabled:
        return None
    return Every(AGENT, agent_place, wanted.namespace or orchestrator.meta.namespace, wanted.selector.selector, _WITHIN)


def servers(orchestrator: Object[OrchestratorSpec]) -> Every[Place] | None:
    """Return the read of the MCP objects that the spec looks for; None: it looks for none."""
    mcp = orchestrator.spec.mcp
    wanted = mcp.service_discovery if mcp.enabled else None
    if wanted is None or not wanted.enabled:
        return None
    return Every(MCP, mcp_place, wanted.namespace or orchestrator.meta.namespace, wanted.selector.selector, _WITHIN)


def may_not_look(read: Every[Place] | None, policy: Policy, field: str) -> Problem | None:
    """Return why the namespace of a read cannot be looked at; None: it can. `field` is where the user wrote it."""
    if read is None or not policy.namespace or read.namespace == policy.namespace:
        return None
    return Problem(
        Reason.FORBIDDEN,
        f"this operator serves only the namespace {policy.namespace}, so no {read.resource.kind} of {read.namespace} "
        "is found",
        f"remove {field}.namespace, or ask for an operator that serves all namespaces",
    )


def merged(prefix: str, listed: Iterable[str], found: Iterable[Place]) -> tuple[Place, ...]:
    """Return all places, those that the spec lists first. A URL that was also found has the name of the object."""
    known = sorted(found)
    taken = {place.url for place in known}
    static = {url: Place(f"{prefix}-{number}", url) for number, url in enumerate(listed) if url not in taken}
    return (*static.values(), *known)


def agents_file(places: Iterable[Place]) -> ConfigFile:
    """Return the file of agents."""
    entries = [{"name": place.name, "url": place.url, "enabled": True, "run": False} for place in places]
    annotation = "inference-gateway.com/agents-config-hash"
    return ConfigFile("agents.yaml", "agents", annotation, _text({"agents": entries}))


def servers_file(places: Iterable[Place]) -> ConfigFile:
    """Return the file of tool servers."""
    content = {"enabled": True, "servers": [_server(place) for place in places]}
    return ConfigFile("mcp.yaml", "mcps", "inference-gateway.com/mcps-config-hash", _text(content))


def _server(place: Place) -> Json:
    # The CLI puts the parts together as they are: an IPv6 address keeps its brackets, and a query is part of the path.
    at = _URL.match(place.url)
    assert at, "no other URL is listed or found"
    return {
        "name": place.name,
        "enabled": True,
        "scheme": at["scheme"],
        "host": at["host"],
        "port": int(at["port"] or _PORTS[at["scheme"]]),
        "path": f"{at['path'] or _MCP_PATH}{at['query'] or ''}",
    }


def _text(content: Json) -> str:
    return yaml.safe_dump(content, sort_keys=False)
