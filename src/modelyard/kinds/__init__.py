"""The kinds that Modelyard serves: each is a `Kind` value, made in the package of its name."""

# First: the builders in kinds/shared import its api, which imports this package first. In another order it is a cycle.
from modelyard.kinds.model import MODEL  # isort: split

from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.mcp import MCP

ALL = (MCP, MODEL, INFERENCE_SERVICE)
