"""A bot with more agents than its status may list, or a variable may hold, still has both in a form that is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import yaml

from modelyard.kinds.orchestrator import ORCHESTRATOR
from modelyard.kinds.orchestrator.api import OrchestratorStatus
from tests.kinds.cases import Case, play
from tests.support.orchestrators import SEARCH, orchestrator

if TYPE_CHECKING:
    from modelyard.core.objects import Json

AGENTS = 1100
TOKEN = {"kind": "Secret", "metadata": {"name": "bot"}, "data": {"token": "c2VjcmV0", "users": "MQ=="}}


def agent(name: str) -> Json:
    return {"kind": "Agent", "metadata": {"name": name, "labels": {"team": "office"}}, "spec": {"image": "agent"}}


def test_a_status_lists_as_many_agents_as_the_schema_takes_and_counts_all() -> None:
    bot = orchestrator("default", a2a=SEARCH)
    names = [f"agent-{number:04}" for number in range(AGENTS)]
    status = play(ORCHESTRATOR, Case("many agents", (bot, TOKEN, *map(agent, names)))).status
    read_back = msgspec.convert(status, OrchestratorStatus)
    assert read_back.discovered_agent_count == AGENTS
    assert len(read_back.discovered_agents) == 1024


def test_agents_that_are_too_long_for_a_variable_are_in_the_file_alone() -> None:
    urls = [f"http://{'agent' * 110}-{number}:8080" for number in range(256)]
    variable, file = told(urls[:100])
    assert (variable, file) == (",".join(urls[:100]), None)
    variable, file = told(urls)
    assert variable is None
    assert file
    assert [entry["url"] for entry in yaml.safe_load(file)["agents"]] == urls


def told(urls: list[str]) -> tuple[str | None, str | None]:
    """Return what the variable and the file say of agents; None: it is absent."""
    bot = orchestrator("default", a2a={"enabled": True, "agents": urls})
    plan = play(ORCHESTRATOR, Case("long URLs", (bot, TOKEN))).plan
    bodies = {child.name: child.body for child in plan.apply}
    (container,) = bodies["helper"]["spec"]["template"]["spec"]["containers"]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    return variables.get("INFER_A2A_AGENTS"), bodies.get("helper-agents", {}).get("data", {}).get("agents.yaml")
