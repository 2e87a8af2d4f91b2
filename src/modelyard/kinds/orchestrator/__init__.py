"""Orchestrator: a chat bot that answers with an LLM and gives tasks to agents and tools."""

from modelyard.core.conditions import FIELDS_IGNORED
from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, POD, SECRET, SERVICE
from modelyard.kinds.agent.api import RESOURCE as AGENT
from modelyard.kinds.contract import Kind
from modelyard.kinds.mcp.api import RESOURCE as MCP
from modelyard.kinds.orchestrator import api, decide, plan, reads, rules, status
from modelyard.kinds.shared.gateway_refs import GATEWAY

ORCHESTRATOR = Kind(
    resource=api.RESOURCE,
    spec=api.OrchestratorSpec,
    status=api.OrchestratorStatus,
    reads=reads.reads,
    decide=decide.decide,
    plan=plan.plan,
    summarise=status.summarise,
    looks_at=(POD, SECRET, AGENT, MCP, GATEWAY, api.RESOURCE),
    children=(DEPLOYMENT, SERVICE, CONFIG_MAP),
    deletes=(SERVICE, CONFIG_MAP),
    conditions=("Available", "Ready"),
    optional_conditions=(status.DISCOVERED, status.MCPS_DISCOVERED, status.PORT_CONTENTION, FIELDS_IGNORED),
    status_on_error=lambda _before, _problem: {"ready": False},
    columns=api.COLUMNS,
    rules=rules.RULES,
    short_names=("orch",),
    categories=("inference-gateway",),
)
