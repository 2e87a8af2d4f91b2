"""A server made with the official MCP SDK, for one machine: it listens where its environment says."""

from __future__ import annotations

import os

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("official", version="3.2.1")


@server.tool()
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def main() -> None:
    """Serve until stopped."""
    # Not the address itself: the SDK refuses the names of Services if it is told one of loopback.
    app = server.streamable_http_app(host="0.0.0.0")
    uvicorn.run(app, host=os.environ["HOST"], port=int(os.environ["PORT"]), log_level="warning", ws="none")
