"""The reads of a ModelDeployment: its children, its claims, its Secret, and the log of its download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, SERVICE, VOLUME_CLAIM
from modelyard.kinds.contract import Named, Owned
from modelyard.kinds.modeldeployment import download, drain, prune, version, weights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec


def reads(md: Object[ModelDeploymentSpec], seen: Seen) -> Iterator[Read]:
    """Name everything that decision, plan and status depend on."""
    for resource in (DEPLOYMENT, SERVICE, AUTOSCALER):
        yield Owned(resource)
    yield drain.SERVERS
    yield from weights.reads(md)
    if before := version.earlier(md, seen):
        yield Named(VOLUME_CLAIM, weights.mounted_claim(before))
    yield from download.reads(md, seen)
    yield from prune.reads(md, seen)
    yield from drain.checks(md, seen)
