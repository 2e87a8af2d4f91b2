"""An agent made with the official A2A SDK: `python -m tests.support.a2a_agent`, prints its port.

Like the agents that Modelyard runs, it listens where its environment says, and publishes the URL that it finds there.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import uvicorn
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role
from starlette.applications import Starlette

if TYPE_CHECKING:
    from a2a.server.agent_execution import RequestContext
    from a2a.server.events import EventQueue


class Echo(AgentExecutor):
    """Answers every message with its own text."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        await event_queue.enqueue_event(new_text_message(context.get_user_input(), role=Role.ROLE_AGENT))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing lasts long enough to be cancelled."""


def card(url: str) -> AgentCard:
    """Return the card of an agent that is reached at this URL."""
    return AgentCard(
        name="Echo",
        description="Says what it hears",
        version="4.5.6",
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        documentation_url="https://example.com/echo",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Repeats", tags=["test"], examples=["hello"])],
    )


def main() -> None:
    """Listen on the loopback interface, at any port, unless told otherwise."""
    listener = socket.create_server((os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "0"))))
    chosen = listener.getsockname()[1]
    published = card(os.environ.get("A2A_AGENT_URL", f"http://127.0.0.1:{chosen}"))
    handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=published)
    routes = [*create_agent_card_routes(published), *create_jsonrpc_routes(handler, "/")]
    print(chosen, flush=True)
    uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning", ws="none")).run(sockets=[listener])


if __name__ == "__main__":
    main()
