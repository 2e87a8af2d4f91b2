"""The kinds that Modelyard serves."""

# First, because the builders in kinds/shared use its api, and importing that begins with the whole kind.
from modelyard.kinds.model import MODEL  # isort: split

from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.mcp import MCP

ALL = (MCP, MODEL, INFERENCE_SERVICE)
