"""What an InferenceHost holds of InferenceModels that have gone: noted while it is away, unloaded when it returns.

An InferenceModel waits five minutes for a host, and a Mac may sleep for a night. Only the InferenceModel proves that
this cluster has loaded a model, so the model is noted while that one still waits. The host names the owner of what it
holds, so what a person or another cluster has asked for since then is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from modelyard.core.hosts import HostReport, ModelState, Protocol, UnloadModel
from modelyard.kinds.inferencehost.api import Leftover, Notes
from modelyard.kinds.inferencehost.reads import claims_on, probe

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferencehost.api import InferenceHostSpec


class Decision(Struct, frozen=True):
    """What is to be remembered, and what the host is asked to unload."""

    memory: Notes
    unloads: tuple[UnloadModel, ...] = ()


def decide(host: Object[InferenceHostSpec], seen: Seen) -> Decision:
    """Return what one host is to be freed of."""
    noted, answer = host.memory.leftovers, seen.answer(probe(host))
    if answer is None or not answer.ok:
        return Decision(Notes(tuple(sorted({*noted, *_leaving(host, seen)}))))
    held = {(one.id, one.owner) for one in _report(answer.value).models if one.state is not ModelState.UNLOADING}
    in_use = {claim.model for _, claim in claims_on(seen, host.key)}
    calls = {one: _unload(host, one) for one in noted if (one.model, one.owner) in held and one.model not in in_use}
    left = {one: call for one, call in calls.items() if not _is_done(seen, call)}
    return Decision(Notes(tuple(left)), tuple(left.values()))


def _report(value: object) -> HostReport:
    return msgspec.convert(value, HostReport)


def _leaving(host: Object[InferenceHostSpec], seen: Seen) -> list[Leftover]:
    namespace = host.meta.namespace
    if host.spec.protocol is not Protocol.INFERENCED:
        # It does not name owners.
        return []
    return [Leftover(claim.model, f"{namespace}/{name}") for name, claim in claims_on(seen, host.key) if claim.leaving]


def _unload(host: Object[InferenceHostSpec], one: Leftover) -> UnloadModel:
    return UnloadModel(host.spec.address_in(host.meta.namespace), one.model, one.owner)


def _is_done(seen: Seen, call: UnloadModel) -> bool:
    result = seen.result(call)
    return result is not None and result.ok
