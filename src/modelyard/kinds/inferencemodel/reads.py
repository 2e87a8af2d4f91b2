"""The reads of an InferenceModel: its children, the hosts, and what other InferenceModels have taken of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from modelyard.core.resources import ENDPOINT_SLICE, SERVICE
from modelyard.kinds.contract import Every, Owned
from modelyard.kinds.inferencemodel.api import RESOURCE, Assignment, Memory, PendingUnload
from modelyard.kinds.inferencemodel.hosts import hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.inferencemodel.api import InferenceModelSpec


class Held(Struct, frozen=True):
    """What an InferenceModel has taken of hosts."""

    assignments: tuple[Assignment, ...]
    pending_unloads: tuple[PendingUnload, ...]


def reads(model: Object[InferenceModelSpec], _seen: Seen) -> Iterator[Read]:
    """Name everything that decision, plan and status depend on."""
    yield Owned(SERVICE)
    yield Owned(ENDPOINT_SLICE)
    yield hosts(model.meta.namespace)
    yield held(model.meta.namespace)


def held(namespace: str) -> Every[Held]:
    """Return the read of what all InferenceModels of a namespace have taken."""
    return Every(RESOURCE, _held, namespace)


def held_by_others(model: Object[InferenceModelSpec], seen: Seen) -> list[Held]:
    """Return what the other InferenceModels of the namespace have taken."""
    return [one for key, one in seen.every(held(model.meta.namespace)).items() if key != model.key]


def _held(stored: Stored) -> Held | None:
    try:
        memory = msgspec.convert(stored.status, Memory)
    except msgspec.ValidationError:
        return None
    if not (memory.assignments or memory.pending_unloads):
        return None
    return Held(memory.assignments, memory.pending_unloads)
