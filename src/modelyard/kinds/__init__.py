"""The kinds that Modelyard serves."""

from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.mcp import MCP
from modelyard.kinds.model import MODEL

ALL = (MCP, MODEL, INFERENCE_SERVICE)
