"""The reads of an InferenceHost: its probe, the other hosts, and the InferenceModels that have something here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


class Place(Struct, frozen=True, order=True):
    """Where pods reach a host, as far as its status says, and which of two hosts was first."""

    address: str
    port: int
    created: str
    name: str


class Claim(Struct, frozen=True):
    """What an InferenceModel has, or still has to unload, on some host."""

    host: str
    model: str
    memory: int


def reads(host: Object[InferenceHostSpec], _seen: Seen) -> Iterator[Read]:
    """Name everything that plan and status depend on."""
    yield probe(host)
    yield places(host.meta.namespace)
    yield claims(host.meta.namespace)


def probe(host: Object[InferenceHostSpec]) -> Asked:
    """Return the check of the daemon."""
    return Asked(HostProbe(host.spec.address_in(host.meta.namespace)))


def places(namespace: str) -> Every[Place]:
    """Return the read of the addresses of all hosts of a namespace."""
    return Every(RESOURCE, _place, namespace)


def claims(namespace: str) -> Every[tuple[Claim, ...]]:
    """Return the read of what all InferenceModels of a namespace have on hosts."""
    return Every(MODEL_RESOURCE, _claims, namespace)


def claims_on(seen: Seen, key: Key) -> list[tuple[str, Claim]]:
    """Return what InferenceModels have on one host, each with the name of its InferenceModel."""
    found = seen.every(claims(key.namespace)).items()
    return [(model.name, claim) for model, held in found for claim in held if claim.host == key.name]


def _place(host: Stored) -> Place | None:
    address = host.status.get("address")
    if not address:
        return None
    spec = _spec(host)
    return Place(str(address), spec.port, host.meta.creation_timestamp or "", host.meta.name) if spec else None


def _spec(host: Stored) -> InferenceHostSpec | None:
    try:
        spec = msgspec.json.decode(host.parts.get("spec", b"{}"), type=InferenceHostSpec)
        _ = spec.port
    except (msgspec.ValidationError, ValueError):
        return None
    return spec


def _claims(model: Stored) -> tuple[Claim, ...] | None:
    memory = _memory(model.status)
    placed = (Claim(one.host, one.model, one.memory) for one in memory.assignments)
    going = (Claim(one.host, one.model, one.memory) for one in memory.pending_unloads)
    return (*placed, *going) or None


def _memory(status: dict[str, Any]) -> ModelMemory:
    try:
        return msgspec.convert(status, ModelMemory)
    except msgspec.ValidationError:
        return ModelMemory()
