"""The reads of an InferenceHost: its probe, the other hosts, and the InferenceModels that have something here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.hosts import HostProbe
from modelyard.kinds.contract import Asked, Every
from modelyard.kinds.inferencehost.api import RESOURCE, InferenceHostSpec
from modelyard.kinds.inferencemodel.api import RESOURCE as MODEL_RESOURCE
from modelyard.kinds.inferencemodel.api import Memory as ModelMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Key
    from modelyard.kinds.contract import Object, Read, Seen

_TWINS_WITHIN: Final = 1.0


class Place(Struct, frozen=True, order=True):
    """Where pods reach a host, as far as its status says, and which of two hosts was first."""

    address: str
    port: int
    created: str
    name: str


class Claim(Struct, frozen=True):
    """What an InferenceModel has, or still has to unload, on a host."""

    model: str
    memory: int
    leaving: bool = False
    """Whether its InferenceModel is being deleted, and goes although it is still to be unloaded, if that takes long."""


def reads(host: Object[InferenceHostSpec], _seen: Seen) -> Iterator[Read]:
    """Name everything that plan and status depend on."""
    yield probe(host)
    yield places(host.meta.namespace)
    yield claims(host.key)


def probe(host: Object[InferenceHostSpec]) -> Asked:
    """Return the check of the daemon."""
    return Asked(HostProbe(host.spec.address_in(host.meta.namespace)))


def places(namespace: str) -> Every[Place]:
    """Return the read of the addresses of all hosts of a namespace.

    A change may wait: when hundreds of hosts come up together, each of them would wake all others.
    """
    return Every(RESOURCE, _place, namespace, within=_TWINS_WITHIN)


def claims(key: Key) -> Every[tuple[Claim, ...]]:
    """Return the read of what the InferenceModels of a namespace have on one of its hosts."""
    return Every(MODEL_RESOURCE, ClaimsOn(key.name), key.namespace)


def claims_on(seen: Seen, key: Key) -> list[tuple[str, Claim]]:
    """Return what InferenceModels have on one host, each with the name of its InferenceModel."""
    return [(model.name, claim) for model, held in seen.every(claims(key)).items() for claim in held]


class ClaimsOn(Struct, frozen=True):
    """The facet of an InferenceModel that one host depends on, so that a model wakes its own hosts alone."""

    host: str

    def __call__(self, model: Stored) -> tuple[Claim, ...] | None:
        """Return what the model has on the host; None: nothing."""
        memory, deleting = _memory(model), model.meta.deleting
        placed = (Claim(one.model, one.memory) for one in memory.assignments if one.host == self.host)
        left = (Claim(one.model, one.memory, deleting) for one in memory.pending_unloads if one.host == self.host)
        return (*placed, *left) or None


class _Addressed(Struct, frozen=True):
    """What of a status says where pods reach a host. The rest is not even decoded: all hosts read all others."""

    address: str = ""


def _place(host: Stored) -> Place | None:
    try:
        address = msgspec.json.decode(host.parts.get("status", b"{}"), type=_Addressed).address
        port = msgspec.json.decode(host.parts.get("spec", b"{}"), type=InferenceHostSpec).port if address else 0
    except (msgspec.ValidationError, ValueError):
        return None
    return Place(address, port, host.meta.creation_timestamp or "", host.meta.name) if address else None


def _memory(model: Stored) -> ModelMemory:
    try:
        return msgspec.json.decode(model.parts.get("status", b"{}"), type=ModelMemory)
    except msgspec.ValidationError:
        return ModelMemory()
