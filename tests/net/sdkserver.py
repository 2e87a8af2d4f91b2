"""A server made with the official MCP SDK: `python -m tests.net.sdkserver JSON STATELESS HOST`, prints its port."""

from __future__ import annotations

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("official", version="3.2.1")


@server.tool()
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


@server.tool()
def greet(name: str) -> str:
    """Say hello."""
    return f"hello {name}"


def main(json_response: str, stateless: str, host: str) -> None:
    """Listen on the loopback interface; the SDK guards itself against foreign Host headers if `host` is local."""
    app = server.streamable_http_app(
        json_response=json_response == "true", stateless_http=stateless == "true", host=host
    )
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none")).run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
