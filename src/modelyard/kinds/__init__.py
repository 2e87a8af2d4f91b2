"""The kinds that Modelyard serves."""

from modelyard.kinds.mcp import MCP

ALL = (MCP,)
