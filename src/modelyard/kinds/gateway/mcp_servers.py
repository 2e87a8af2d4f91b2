"""The tool servers of a gateway: those that the spec lists, and MCP objects that it finds by their labels."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from modelyard.core.conditions import Problem
from modelyard.core.quantities import seconds
from modelyard.core.reasons import Reason
from modelyard.kinds.contract import Every
from modelyard.kinds.mcp.api import RESOURCE as MCP
from modelyard.kinds.shared.image_version import is_before

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.gateway.api import GatewaySpec

_WITHIN: Final = 5.0
"""Seconds that a change may wait: every change of the set replaces the pods of the gateway."""
_INTERVAL: Final = "30s"
_NAMES_SINCE: Final = (0, 49, 0)
"""The first version of the image that calls each server by a name: that of its host, unless it is told another."""
_RESERVED: Final = "tools"
_HOST: Final = re.compile(r"https?://(\[[^]]*]|[^[:/?#]+)")


def mcp_url(mcp: Stored) -> str | None:
    """Return the URL of an MCP object; None: it has none yet, or is being deleted.

    Whether it is ready does not matter: the gateway connects again by itself, and each flap would replace its pods.
    """
    return None if mcp.meta.deleting else str(mcp.status.get("url", "")) or None


def discovered(gateway: Object[GatewaySpec]) -> Every[str] | None:
    """Return the read of the MCP objects that the spec looks for; None: it looks for none."""
    found = gateway.spec.mcp.service_discovery
    if not gateway.spec.mcp.enabled or found is None or not found.enabled:
        return None
    return Every(MCP, mcp_url, found.namespace or gateway.meta.namespace, found.selector.selector, _WITHIN)


def mcp_servers(gateway: Object[GatewaySpec], seen: Seen) -> tuple[str, ...]:
    """Return the URLs of all tool servers, sorted, each once; empty: there are none, or MCP is off."""
    if not gateway.spec.mcp.enabled:
        return ()
    read = discovered(gateway)
    found = seen.every(read).values() if read else ()
    return tuple(sorted({*found, *(server.url for server in gateway.spec.mcp.servers)}))


def servers_variable(image: str, urls: tuple[str, ...]) -> str:
    """Return the variable with all tool servers, by commas.

    The image ends at once if two servers have one name, or one that it reserves. Those are told a name of their own,
    which older images would take for a part of the URL.
    """
    if is_before(image, _NAMES_SINCE):
        return ",".join(urls)
    count = Counter(_name(url) for url in urls)
    return ",".join(url if count[_name(url)] == 1 and _name(url) != _RESERVED else _named(url) for url in urls)


def _name(url: str) -> str:
    """Return what the image calls a server that is told no name."""
    found = _HOST.match(url)
    return re.sub(r"[^a-z0-9_-]+", "_", found[1].lower()).strip("_") if found else ""


def _named(url: str) -> str:
    return f"{_name(url)}_{hashlib.sha256(url.encode()).hexdigest()[:6]}={url}"


def find_problem(gateway: Object[GatewaySpec], seen: Seen) -> Problem | None:
    """Return why the namespace of the tool servers cannot be looked at; None: it can, or none is looked for."""
    read, served = discovered(gateway), seen.policy.namespace
    if read is None or not served or read.namespace == served:
        return None
    return Problem(
        Reason.FORBIDDEN,
        f"this operator serves only the namespace {served}, so MCP objects of {read.namespace} are not found",
        "remove spec.mcp.serviceDiscovery.namespace, list their URLs in spec.mcp.servers, or ask for an operator that "
        "serves all namespaces",
    )


def polling(spec: GatewaySpec) -> dict[str, str]:
    """Return the variables about the watching of servers. The gateway has one setting: the most watchful counts."""
    checks = [server.health_check for server in spec.mcp.servers]
    watched = [check.interval for check in checks if check.enabled]
    enabled = bool(watched) or not checks
    interval = min(watched, key=seconds, default=_INTERVAL)
    return {"MCP_POLLING_ENABLED": str(enabled).lower(), "MCP_POLLING_INTERVAL": interval}
