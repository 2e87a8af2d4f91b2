"""What to write to a status: the merge patch from the stored one to what a kind says. Pure; `controller` sends it.

Conditions that neither the kind nor the runtime owns are left alone, and no patch means no write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from modelyard.core.conditions import Condition, Problem, Truth, condition, failing, merged, stored_condition
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msgspec import Struct

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Kind

Json = dict[str, Any]

RUNTIME_CONDITIONS = frozenset({"Paused", "Applied"})
"""Condition types that the runtime may add to objects of every kind. Absent unless there is something to say."""

LAST_UPDATED = "lastUpdated"
"""The status field of some kinds that says when the status last changed."""


def summary(
    kind: Kind, stored: Stored, status: Struct, warning: Problem | None, now: str, memory: Struct | None = None
) -> Json:
    """Return the status to store: what the kind says and remembers, and what the runtime adds."""
    stated: Json = msgspec.json.decode(msgspec.json.encode(status)) | memory_fields(memory)
    conditions: tuple[Condition, ...] = getattr(status, "conditions", ())
    if warning:
        conditions = (*conditions, failing("Applied", warning))
    owned = RUNTIME_CONDITIONS.union(kind.conditions, kind.optional_conditions)
    return {
        **stated,
        "observedGeneration": stored.meta.generation,
        "conditions": _conditions(stored, conditions, owned, now),
    }


def on_error(kind: Kind, stored: Stored, problem: Problem, now: str) -> Json:
    """Return the status of an object for which `summarise` cannot be called: invalid, unreachable, or a bug of ours.

    Its children are not watched over meanwhile, so Ready is False and all other conditions are Unknown.
    """
    unknown = (failing(name, problem, Truth.UNKNOWN) for name in kind.conditions if name != "Ready")
    owned = RUNTIME_CONDITIONS.union(kind.optional_conditions)
    conditions = _conditions(stored, (*unknown, failing("Ready", problem)), owned, now)
    changed = kind.status_on_error(stored.status, problem)
    return {**changed, "observedGeneration": stored.meta.generation, "conditions": conditions}


def memory_fields(memory: Struct | None) -> Json:
    """Return the status fields of a memory, null where unset, so that it is removed; empty without a memory."""
    # As JSON: a tuple equals no stored list, and the memory would be written at every reconcile.
    return dict(msgspec.json.decode(msgspec.json.encode(memory))) if memory is not None else {}


def paused(stored: Stored, now: str) -> Json:
    """Return the status of a paused object: the condition Paused, or nothing if it is there already."""
    if stored_condition(stored.status, "Paused"):
        return {}
    said = condition("Paused", Truth.TRUE, Reason.PAUSED, "remove the annotation modelyard.dev/paused to resume")
    return {"conditions": _conditions(stored, (said,), frozenset(), now)}


def merge_patch(stored: Stored, status: Json, now: str) -> Json:
    """Return the merge patch from the stored status to the wanted one; empty when they are equal.

    The field `lastUpdated` is set only together with another change. Compared, it would be a write at every reconcile.
    """
    patch = _object_patch(stored.status, {name: value for name, value in status.items() if name != LAST_UPDATED})
    return {**patch, LAST_UPDATED: now} if patch and LAST_UPDATED in {*status, *stored.status} else patch


def _conditions(stored: Stored, stated: Iterable[Condition], owned: frozenset[str], now: str) -> list[Json]:
    before = stored.status.get("conditions") or []
    known = [entry for entry in before if isinstance(entry, dict)]
    return merged(stated, known, owned, stored.meta.generation, now)


def _object_patch(old: Json, new: Json) -> Json:
    patch: Json = {}
    for name, value in new.items():
        if value is None:
            patch |= {name: None} if name in old else {}
        elif isinstance(value, dict) and isinstance(old.get(name), dict):
            gone = dict.fromkeys(old[name].keys() - value.keys())
            if inner := {**gone, **_object_patch(old[name], value)}:
                patch[name] = inner
        elif old.get(name) != value or name not in old:
            patch[name] = value
    return patch
