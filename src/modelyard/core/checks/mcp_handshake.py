"""The check of an MCP server, answered by `net/mcp.py`."""

from __future__ import annotations

from typing import ClassVar

from modelyard.core.checks import Check
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.grants import Grant
from modelyard.core.resources import SECRET


class McpHandshake(Check, frozen=True):
    """Start a session with an MCP server, list its tools, end the session."""

    grants: ClassVar[tuple[Grant, ...]] = (Grant(SECRET, "", ("get",)),)

    service: ServiceAddress
    path: str
    timeout: float
    template: str
    """A fingerprint of the pod template: answers of older pods must not speak for newer ones."""
    trust: str = ""
    """The Secret whose `tls.crt` the server must present; empty: plain HTTP."""
    every: float = 30.0
