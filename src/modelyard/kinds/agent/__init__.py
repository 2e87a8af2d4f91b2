"""Agent: a server that speaks A2A, which orchestrators and other agents give tasks to."""

from modelyard.core.checks.agent_card import AgentCard
from modelyard.core.conditions import FIELDS_IGNORED
from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, POD, SECRET, SERVICE
from modelyard.kinds.agent import api, plan, reads, status
from modelyard.kinds.contract import Kind
from modelyard.kinds.shared import service_refs
from modelyard.kinds.shared.gateway_refs import GATEWAY

AGENT = Kind(
    resource=api.RESOURCE,
    spec=api.AgentSpec,
    status=api.AgentStatus,
    reads=reads.reads,
    plan=plan.plan,
    summarise=status.summarise,
    looks_at=(POD, SECRET, CONFIG_MAP, GATEWAY, *service_refs.RESOURCES),
    children=(DEPLOYMENT, SERVICE),
    asks=(AgentCard,),
    conditions=("Available", status.CARD_FETCHED, "Ready"),
    optional_conditions=(FIELDS_IGNORED,),
    status_on_error=lambda _before, _problem: {"ready": False},
    columns=api.COLUMNS,
    rules=api.RULES,
)
