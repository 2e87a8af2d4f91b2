"""The condition MemoryPressure of an InferenceModel: what it is to a model that its hosts are short of memory.

`status` calls it. An InferenceService with `accelerator: metal` repeats the condition as its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.conditions import Condition, Problem, Truth, failing
from modelyard.core.hosts import EVICTED, Pressure
from modelyard.core.reasons import Reason
from modelyard.kinds.inferencemodel.api import State

if TYPE_CHECKING:
    from modelyard.kinds.inferencemodel.decide import Decision

TYPE: Final = "MemoryPressure"

_LEVELS: Final = ((Pressure.CRITICAL, Reason.CRITICAL), (Pressure.WARNING, Reason.WARNING))
_REMEDY: Final = "end other programs there, or move models to other hosts"


def memory_pressure(decision: Decision) -> tuple[Condition, ...]:
    """Return the condition MemoryPressure; empty: no host of the model is short of memory."""
    if hosts := evicted_from(decision):
        wrong = f"{', '.join(hosts)} has unloaded the model, because it was short of memory"
        remedy = "it returns by itself when that is over; to prevent it, raise spec.priority"
        return (failing(TYPE, Problem(Reason.EVICTED, wrong, remedy), Truth.TRUE),)
    used = [decision.hosts[one.assignment.host] for one in decision.replicas]
    for level, reason in _LEVELS:
        if short := [host.name for host in used if host.answers and host.pressure == level]:
            problem = Problem(reason, f"{', '.join(short)} is short of memory", _REMEDY)
            return (failing(TYPE, problem, Truth.TRUE),)
    return ()


def evicted_from(decision: Decision) -> list[str]:
    """Return the hosts that have evicted the model, sorted."""
    failed = (one.assignment for one in decision.replicas if one.state is State.FAILED)
    entries = ((one.host, decision.hosts[one.host].loaded(one.model)) for one in failed)
    return sorted({host for host, entry in entries if entry and entry.code == EVICTED})
