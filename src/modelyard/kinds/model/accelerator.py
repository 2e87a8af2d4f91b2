"""Whether a node of the cluster has the accelerator of a Model. Only reported: nodes may be added later."""

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
"""Seconds. Nodes come in crowds, and one reconcile for many of them is enough."""


class HasResource(Struct, frozen=True):
    """The facet of a node: whether it has an extended resource."""

    name: str

    def __call__(self, node: Stored) -> bool | None:
        """Return True; None: the node does not have it."""
        # Most nodes do not have it, and decoding the status of every node for every Model would take seconds.
        if self.name.encode() not in node.parts.get("status", b""):
            return None
        return str(node.status.get("capacity", {}).get(self.name, "0")) != "0" or None


def nodes(spec: ModelSpec, policy: Policy) -> Every[bool] | None:
    """Return the read of nodes with the accelerator of a Model; None: it needs none."""
    if spec.hardware.accelerator in (Accelerator.CPU, Accelerator.METAL):
        return None
    return Every(NODE, HasResource(gpu.resource_name(spec.hardware, policy)), within=WITHIN)


def missing_resource(spec: ModelSpec, seen: Seen) -> str:
    """Return the extended resource that no node has; empty: none is missing."""
    read = nodes(spec, seen.policy)
    if read is None or seen.every(read):
        return ""
    return gpu.resource_name(spec.hardware, seen.policy)
