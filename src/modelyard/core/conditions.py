"""Conditions of a status, by the Kubernetes API conventions: a type, a status, a reason and a message.

Kinds state conditions without times. `merged` adds them for `runtime/status.py`: the transition time moves only when
the status value does.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from modelyard.core.reasons import Reason
from modelyard.core.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

FIELDS_IGNORED: Final = "FieldsIgnored"
"""The type of the condition that names fields without effect, of all kinds that have some."""
_LONGEST_MESSAGE: Final = 32768


class Truth(StrEnum):
    """The status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One aspect of the state of an object."""

    type: Annotated[str, Meta(description="Which aspect this is.", max_length=316)]
    status: Annotated[Truth, Meta(description="True, False or Unknown.")]
    reason: Annotated[str, Meta(description="Why, in one word from docs/reasons.md.", max_length=1024)]
    message: Annotated[str, Meta(description="Why, and the next step, for a person.", max_length=_LONGEST_MESSAGE)] = ""
    last_transition_time: Annotated[
        str, Meta(description="When the status last changed.", extra_json_schema={"format": "date-time"})
    ] = ""
    observed_generation: Annotated[int, Meta(description="The generation this was said of.")] = 0


Conditions = Annotated[
    tuple[Condition, ...],
    Meta(max_length=32, extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]
"""The conditions of a status. A map by type for server-side apply, so that several writers can own one type each."""


class Problem(Struct, frozen=True):
    """A reason, what is wrong, and the remedy; an empty remedy means that there is only to wait."""

    reason: Reason
    message: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """Message and remedy, as conditions and events show them."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


def condition(kind: str, truth: Truth | bool, reason: Reason, message: str) -> Condition:
    """Return a condition without times; the message is made fit for a terminal."""
    value = truth if isinstance(truth, Truth) else Truth.TRUE if truth else Truth.FALSE
    # It may quote a server, a file or a program, and escape sequences in it would reach the terminals of users.
    return Condition(type=kind, status=value, reason=reason.value, message=clean(message, _LONGEST_MESSAGE))


def failing(kind: str, problem: Problem, truth: Truth = Truth.FALSE) -> Condition:
    """Return a condition that a problem makes False, or what `truth` says."""
    return condition(kind, truth, problem.reason, problem.text)


def stored_condition(status: Json, kind: str) -> Json:
    """Return one condition of a stored status, by its type; empty: it is absent."""
    entries = status.get("conditions") or ()
    return next((entry for entry in entries if isinstance(entry, dict) and entry.get("type") == kind), {})


def ready_since(status: Json) -> datetime | None:
    """Return the transition time of a stored Ready condition; None: it is absent or makes no sense."""
    try:
        return datetime.fromisoformat(stored_condition(status, "Ready")["lastTransitionTime"])
    except (KeyError, TypeError, ValueError):
        return None


def merged(
    stated: Iterable[Condition], before: list[Json], owned: frozenset[str], generation: int, now: str
) -> list[Json]:
    """Return the conditions to store: those stated, with their times, and those of types that we do not own, untouched.

    A type that we own and no longer state is dropped, or a warning would stay after its cause is gone.
    """
    old = {str(entry.get("type")): entry for entry in before}
    ours = {entry.type: _timed(entry, old.get(entry.type), generation, now) for entry in stated}
    kept = [ours.get(name, entry) for name, entry in old.items() if name in ours or name not in owned]
    return kept + [entry for name, entry in ours.items() if name not in old]


def transition_time(before: Json, status: str, now: str) -> str:
    """Return the `lastTransitionTime` of a condition: it moves only when the status value does.

    `before` is the stored condition; empty: there was none.
    """
    return str(before.get("lastTransitionTime", now)) if before.get("status") == status else now


def _timed(stated: Condition, before: Json | None, generation: int, now: str) -> Json:
    since = transition_time(before or {}, stated.status.value, now)
    entry = msgspec.structs.replace(stated, last_transition_time=since, observed_generation=generation)
    return {"message": "", **msgspec.to_builtins(entry)}
