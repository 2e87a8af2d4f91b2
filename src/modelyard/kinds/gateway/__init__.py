"""Gateway: a proxy that offers the models of many providers, and of the cluster itself, under one API."""

from modelyard.core.checks.gateway_models import GatewayModels
from modelyard.core.conditions import FIELDS_IGNORED
from modelyard.core.resources import CONFIG_MAP, POD, SECRET
from modelyard.kinds.contract import Kind
from modelyard.kinds.gateway import api, decide, plan, reads, rules, status
from modelyard.kinds.mcp.api import RESOURCE as MCP
from modelyard.kinds.shared import autoscale, service_refs

GATEWAY = Kind(
    resource=api.RESOURCE,
    spec=api.GatewaySpec,
    status=api.GatewayStatus,
    reads=reads.reads,
    decide=decide.decide,
    plan=plan.plan,
    summarise=status.summarise,
    looks_at=(POD, SECRET, CONFIG_MAP, MCP, *service_refs.RESOURCES),
    children=plan.CHILDREN,
    deletes=plan.CHILDREN,
    asks=(GatewayModels,),
    conditions=("Available", "Progressing", "ReplicaFailure", "Responding", FIELDS_IGNORED, "Ready"),
    optional_conditions=(status.DISCOVERED, autoscale.AUTOSCALED),
    status_on_error=status.on_error,
    columns=api.COLUMNS,
    rules=rules.RULES,
)
