"""MCP: a tool server that speaks the Model Context Protocol. The reference kind: copy this package to add another."""

from modelyard.core.checks.mcp_handshake import McpHandshake
from modelyard.core.resources import AUTOSCALER, CONFIG_MAP, DEPLOYMENT, POD, SECRET, SERVICE
from modelyard.kinds.contract import Kind
from modelyard.kinds.mcp import api, plan, reads, status
from modelyard.kinds.shared import autoscale

MCP = Kind(
    resource=api.RESOURCE,
    spec=api.McpSpec,
    status=api.McpStatus,
    reads=reads.reads,
    plan=plan.plan,
    summarise=status.summarise,
    looks_at=(POD, SECRET, CONFIG_MAP),
    children=(DEPLOYMENT, SERVICE, AUTOSCALER),
    deletes=(AUTOSCALER,),
    asks=(McpHandshake,),
    conditions=("Available", "Responding", "Ready"),
    optional_conditions=(autoscale.AUTOSCALED,),
    status_on_error=lambda _before, _problem: {"ready": False},
    columns=api.COLUMNS,
    rules=api.RULES,
)
