"""A bot that finds more agents than its status may list still has a status that the API server takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from modelyard.kinds.orchestrator import ORCHESTRATOR
from modelyard.kinds.orchestrator.api import OrchestratorStatus
from tests.kinds.cases import Case, play
from tests.support.orchestrators import SEARCH, orchestrator

if TYPE_CHECKING:
    from modelyard.core.objects import Json

AGENTS = 1100


def agent(name: str) -> Json:
    return {"kind": "Agent", "metadata": {"name": name, "labels": {"team": "office"}}, "spec": {"image": "agent"}}


def test_a_status_lists_as_many_agents_as_the_schema_takes_and_counts_all() -> None:
    bot = orchestrator("default", a2a=SEARCH)
    token = {"kind": "Secret", "metadata": {"name": "bot"}, "data": {"token": "c2VjcmV0", "users": "MQ=="}}
    names = [f"agent-{number:04}" for number in range(AGENTS)]
    status = play(ORCHESTRATOR, Case("many agents", (bot, token, *map(agent, names)))).status
    read_back = msgspec.convert(status, OrchestratorStatus)
    assert read_back.discovered_agent_count == AGENTS
    assert len(read_back.discovered_agents) == 1024
