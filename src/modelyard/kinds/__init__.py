"""The kinds that Modelyard serves: each is a `Kind` value, made in the package of its name."""

# First: the builders in kinds/shared import its api, which imports this package first. In another order it is a cycle.
from modelyard.kinds.model import MODEL  # isort: split

from modelyard.core.policy import Policy
from modelyard.kinds.agent import AGENT
from modelyard.kinds.contract import Kind
from modelyard.kinds.door import DOOR
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.inferencehost import INFERENCE_HOST
from modelyard.kinds.inferencemodel import INFERENCE_MODEL
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.mcp import MCP
from modelyard.kinds.modeldeployment import MODEL_DEPLOYMENT
from modelyard.kinds.orchestrator import ORCHESTRATOR
from modelyard.kinds.zerfooinferenceservice import ZERFOO_INFERENCE_SERVICE

ALL = (
    MCP,
    MODEL,
    INFERENCE_SERVICE,
    MODEL_DEPLOYMENT,
    ZERFOO_INFERENCE_SERVICE,
    AGENT,
    GATEWAY,
    ORCHESTRATOR,
    INFERENCE_HOST,
    INFERENCE_MODEL,
)
"""The kinds that users write, each with its CRD."""


def served(policy: Policy) -> tuple[Kind, ...]:
    """Return the kinds that an operator serves: all, and the internal one of the door if the administrator wants it."""
    return (*ALL, DOOR) if policy.door else ALL
