"""Whether the cluster has what a model is computed on. Shown, and nothing waits for it: nodes may come later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core.resources import NODE
from modelyard.kinds.contract import Every
from modelyard.kinds.model.api import Accelerator
from modelyard.kinds.shared import gpu

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Seen
    from modelyard.kinds.model.api import ModelSpec

WITHIN = 5.0
"""Seconds. Nodes come in crowds, and nobody waits for what is said of them here."""


class HasResource(Struct, frozen=True):
    """Whether a node offers an extended resource."""

    name: str

    def __call__(self, node: Stored) -> bool | None:
        """Return True, or None: such a node does not matter."""
        # Most nodes of most clusters do not have it, and to decode each of them for each Model would take seconds.
        if self.name.encode() not in node.parts.get("status", b""):
            return None
        return str(node.status.get("capacity", {}).get(self.name, "0")) != "0" or None


def nodes(spec: ModelSpec, policy: Policy) -> Every[bool] | None:
    """Return which nodes to look at; None when every machine will do."""
    if spec.hardware.accelerator in (Accelerator.CPU, Accelerator.METAL):
        return None
    return Every(NODE, HasResource(gpu.resource_name(spec.hardware, policy)), within=WITHIN)


def missing_resource(spec: ModelSpec, seen: Seen) -> str:
    """Return the resource that no node offers; empty when nothing is missing."""
    read = nodes(spec, seen.policy)
    if read is None or seen.every(read):
        return ""
    return gpu.resource_name(spec.hardware, seen.policy)
