"""The Service in front of the hosts of an InferenceModel: its own, or that of the InferenceService that it belongs to.

An InferenceService keeps one Service while its Model moves between pods and hosts, so that name and address never
lead nowhere. Kubernetes' own controller takes care of the slices of pods, and of no slice with another manager than
itself, so both kinds of slices may be there at the same time. `reads`, `plan` and `status` call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.resources import SERVICE
from modelyard.kinds.contract import Named, Owned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import OwnerReference, Stored
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.inferencemodel.api import InferenceModelSpec

_WITH_SERVICE: Final = ("inference.llmkube.dev", "InferenceService")
"""Group and kind of the objects that bring the Service themselves."""


def lender(model: Object[InferenceModelSpec]) -> OwnerReference | None:
    """Return the InferenceService whose Service leads to the hosts; None: the InferenceModel has one of its own."""
    owner = model.meta.controller
    is_lender = owner and (owner.api_version.partition("/")[0], owner.kind) == _WITH_SERVICE
    return owner if is_lender else None


def reads(model: Object[InferenceModelSpec]) -> Iterator[Read]:
    """Name the Service, whichever it is."""
    yield Owned(SERVICE)
    if lender(model):
        yield Named(SERVICE, model.meta.name)


def front(model: Object[InferenceModelSpec], seen: Seen) -> Stored | None:
    """Return the Service that leads to the hosts; None: there is none (yet), or another object has its name."""
    owner = lender(model)
    if owner is None:
        return seen.one(Owned(SERVICE))
    found = seen.one(Named(SERVICE, model.meta.name))
    is_lent = found and found.meta.controller and found.meta.controller.uid == owner.uid
    return found if is_lent else None
