"""The reads of a Model. Each module that works out a part of its status names its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.kinds.model import accelerator, prefetch, upstream, weights_present
from modelyard.kinds.shared import model_volumes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.model.api import ModelSpec


def reads(model: Object[ModelSpec], seen: Seen) -> Iterator[Read]:
    """Name everything that decision, plan and status of a Model depend on."""
    yield from model_volumes.reads(model.spec)
    yield from prefetch.reads(model, seen)
    yield from weights_present.reads(model, seen.policy)
    if nodes := accelerator.nodes(model.spec, seen.policy):
        yield nodes
    if question := upstream.source_check(model, seen.policy):
        yield question
