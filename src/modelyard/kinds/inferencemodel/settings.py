"""How a replica was loaded and what its host was told, compared with what is wanted now. Pure; `decide` calls it.

Options count when a model is loaded, so a change means unload and load, one host after the other. Terms may change at
any time, and so may the memory: the host is asked to load what it has loaded, and takes them over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from modelyard.core.diff import fingerprint
from modelyard.core.hosts import LoadTerms, Protocol
from modelyard.kinds.inferencemodel.api import State

if TYPE_CHECKING:
    from modelyard.core.checks import Answer
    from modelyard.core.hosts import LoadOptions
    from modelyard.kinds.inferencehost.api import Loaded
    from modelyard.kinds.inferencemodel.api import Assignment, PendingUnload
    from modelyard.kinds.inferencemodel.life import Replica
    from modelyard.kinds.inferencemodel.scene import Scene

_ON_ITS_WAY: Final = frozenset({State.PENDING, State.DOWNLOADING, State.LOADING})
_NOT_KNOWN: Final = "not known"
_LISTED: Final = frozenset({State.DOWNLOADING, State.LOADING, State.READY})


def options_text(options: LoadOptions) -> str:
    """Return options as an assignment remembers them; empty: there are none."""
    return ",".join(f"{name}={_spelled(value)}" for name, value in sorted(msgspec.to_builtins(options).items()))


def _spelled(value: str | int) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def loaded_with(scene: Scene, host: str, entry: Loaded | None) -> str:
    """Return the options with which a model is loaded on a host that is chosen now; None: the host does not have it."""
    wanted = options_text(scene.model.spec.options.of_load)
    if entry is None:
        return wanted
    for other in scene.others:
        for one in other.assignments:
            if (one.host, one.model) == (host, scene.model.spec.model):
                return one.options
    # What is left of an InferenceModel that has gone was loaded as that one wanted it.
    return _NOT_KNOWN if wanted and entry.owner not in ("", scene.owner) else wanted


def terms_hash(terms: LoadTerms) -> str:
    """Return terms as an assignment remembers them; empty: they are those that a host takes by itself."""
    return "" if terms == LoadTerms() else fingerprint(msgspec.to_builtins(terms))


def with_terms(scene: Scene, replica: Replica, result: Answer | None) -> Replica:
    """Return a replica whose host is asked once more if it was told other terms, and remembers them when it has."""
    spec, wanted = scene.model.spec, terms_hash(scene.model.spec.terms)
    assignment = replica.assignment
    if assignment.model != spec.model or replica.state not in _LISTED:
        return replica
    if assignment.terms != wanted and result and result.ok:
        assignment = replace(assignment, terms=wanted)
    is_told = assignment.terms == wanted and not _has_other_memory(scene, assignment)
    # A request that has succeeded is not made again, also while the host lists it as before.
    return replace(replica, assignment=assignment, request=not is_told)


def _has_other_memory(scene: Scene, assignment: Assignment) -> bool:
    """Return whether a host has reserved another amount for a model of ours than its user says now."""
    host = scene.hosts[assignment.host]
    entry = host.loaded(assignment.model)
    if not (scene.model.spec.memory and assignment.ours and entry and entry.memory):
        return False
    # Two InferenceModels that say different amounts would tell the host by turns, for ever.
    is_shared = assignment.host in {
        one.host for other in scene.others for one in other.assignments if one.model == assignment.model
    }
    is_asked = host.address.protocol is Protocol.INFERENCED
    return is_asked and not is_shared and entry.memory != assignment.memory


def reload_of(scene: Scene, assignment: Assignment) -> PendingUnload | None:
    """Return the unload that a replica waits for before it is loaded anew; None: it waits for none."""
    return next(
        (
            one
            for one in scene.before.pending_unloads
            if one.reload and (one.host, one.model) == (assignment.host, assignment.model)
        ),
        None,
    )


def next_reload(scene: Scene, kept: list[Replica]) -> Replica | None:
    """Return the replica that is to be loaded anew now, because its options have changed; None: none, or not yet.

    One at a time, so that the others serve meanwhile. Only what we have loaded, and what no other InferenceModel uses,
    on hosts that can be told options: others would serve as before.
    """
    spec, in_use = scene.model.spec, {(one.host, one.model) for other in scene.others for one in other.assignments}
    wanted = options_text(spec.options.of_load)
    outdated = [
        one
        for one in kept
        if one.assignment.model == spec.model
        and one.assignment.options != wanted
        and one.assignment.ours
        and (one.assignment.host, one.assignment.model) not in in_use
        and scene.hosts[one.assignment.host].answers
        and scene.hosts[one.assignment.host].address.protocol is Protocol.INFERENCED
    ]
    first = min(outdated, key=lambda one: (one.state is State.READY, one.assignment.host), default=None)
    others_move = any(one.state in _ON_ITS_WAY for one in kept if one is not first)
    return None if others_move else first
