"""The condition FieldsIgnored of an InferenceModel: options that a host loads the model without, and why.

`status` calls it. An InferenceService with `accelerator: metal` repeats it in its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.conditions import FIELDS_IGNORED, Condition, Problem, Truth, failing
from modelyard.core.hosts import Protocol
from modelyard.core.reasons import Reason
from modelyard.kinds.inferencemodel.reads import held_by_others
from modelyard.kinds.inferencemodel.settings import options_text

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferencemodel.api import InferenceModelSpec
    from modelyard.kinds.inferencemodel.decide import Decision

_SPELLED: Final = {"parallel": "parallelSlots"}
"""What hosts call an option, and users."""


def options_ignored(model: Object[InferenceModelSpec], seen: Seen, decision: Decision) -> tuple[Condition, ...]:
    """Return the condition FieldsIgnored; empty: all hosts of the model follow all options, as far as they say."""
    problem = _shared(model, seen, decision) or _not_known(model, decision)
    return (failing(FIELDS_IGNORED, problem, Truth.TRUE),) if problem else ()


def _shared(model: Object[InferenceModelSpec], seen: Seen, decision: Decision) -> Problem | None:
    """Return a problem if a host has the model with the options of another InferenceModel; None: none has."""
    wanted = options_text(model.spec.options.of_load)
    used = {(one.host, one.model) for other in held_by_others(model, seen) for one in other.assignments}
    placed = (one.assignment for one in decision.replicas)
    hit = sorted(one.host for one in placed if one.options != wanted and (one.host, one.model) in used)
    if not hit:
        return None
    wrong = (
        f"{', '.join(hit)} serves without spec.options and spec.aliases, because another InferenceModel uses the model "
        "there with other options"
    )
    remedy = "give both the same spec.options, or choose other hosts with spec.hostSelector"
    return Problem(Reason.FIELD_IGNORED, wrong, remedy)


def _not_known(model: Object[InferenceModelSpec], decision: Decision) -> Problem | None:
    """Return a problem if a daemon or an engine does not know an option; None: all do, as far as they say."""
    told = {one.assignment.host: _left_out(model, decision, one.assignment.host) for one in decision.replicas}
    hit = [f"{host} serves without {', '.join(told[host])}" for host in sorted(told) if told[host]]
    if not hit:
        return None
    wrong = f"{', '.join(hit)}, because its daemon or its engine has no such option"
    return Problem(
        Reason.FIELD_IGNORED, wrong, "remove it from spec.options, or choose other hosts with spec.hostSelector"
    )


def _left_out(model: Object[InferenceModelSpec], decision: Decision, name: str) -> list[str]:
    host, asked = decision.hosts[name], model.spec.options.of_load.named
    if host.address.protocol is Protocol.INFERENCED:
        entry = host.loaded(model.spec.model)
        asked = tuple(one for one in asked if entry and one in entry.ignored_options)
    return sorted(_SPELLED.get(one, one) for one in asked)
