"""The reads of an InferenceModel: its children, the hosts, and what other InferenceModels have taken of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.resources import ENDPOINT_SLICE, ENDPOINTS
from modelyard.kinds.contract import Every, Named, Owned
from modelyard.kinds.inferencemodel import front
from modelyard.kinds.inferencemodel.api import RESOURCE, Assignment, Memory, PendingUnload
from modelyard.kinds.inferencemodel.hosts import hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.inferencemodel.api import InferenceModelSpec

_NOT_COPIED: Final = "endpointslice.kubernetes.io/skip-mirror"


class Held(Struct, frozen=True):
    """What an InferenceModel has taken of hosts."""

    assignments: tuple[Assignment, ...]
    pending_unloads: tuple[PendingUnload, ...]


def reads(model: Object[InferenceModelSpec], _seen: Seen) -> Iterator[Read]:
    """Name everything that decision, plan and status depend on."""
    yield from front.reads(model)
    yield Owned(ENDPOINT_SLICE)
    yield Named(ENDPOINTS, model.meta.name)
    yield hosts(model.meta.namespace)
    yield held(model.meta.namespace)


def has_foreign_endpoints(model: Object[InferenceModelSpec], seen: Seen) -> bool:
    """Return whether Kubernetes copies an Endpoints object of another client into slices of our Service."""
    found = seen.one(Named(ENDPOINTS, model.meta.name))
    # Of a Service with a selector, as an InferenceService lends it, Kubernetes writes the Endpoints and copies none.
    return found is not None and found.meta.label(_NOT_COPIED) != "true" and not front.lender(model)


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
