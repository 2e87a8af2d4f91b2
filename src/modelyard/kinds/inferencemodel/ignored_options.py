"""The condition FieldsIgnored of an InferenceModel: options that a host loads the model without, and why.

`status` calls it. An InferenceService with `accelerator: metal` repeats it in its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.conditions import FIELDS_IGNORED, Condition, Problem, Truth, failing
from modelyard.core.hosts import Protocol
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object
    from modelyard.kinds.inferencemodel.api import InferenceModelSpec
    from modelyard.kinds.inferencemodel.decide import Decision

_SPELLED: Final = {"parallel": "parallelSlots"}
"""What hosts call an option, and users."""


def options_ignored(model: Object[InferenceModelSpec], decision: Decision) -> tuple[Condition, ...]:
    """Return the condition FieldsIgnored; empty: all hosts of the model follow all options, as far as they say."""
    told = {one.assignment.host: _left_out(model, decision, one.assignment.host) for one in decision.replicas}
    hit = [f"{host} serves without {', '.join(told[host])}" for host in sorted(told) if told[host]]
    if not hit:
        return ()
    wrong = f"{', '.join(hit)}, because its daemon or its engine has no such option"
    remedy = "remove it from spec.options, or choose other hosts with spec.hostSelector"
    return (failing(FIELDS_IGNORED, Problem(Reason.FIELD_IGNORED, wrong, remedy), Truth.TRUE),)


def _left_out(model: Object[InferenceModelSpec], decision: Decision, name: str) -> list[str]:
    host, asked = decision.hosts[name], model.spec.options.of_load.named
    if host.address.protocol is Protocol.INFERENCED:
        entry = host.loaded(model.spec.model)
        asked = tuple(one for one in asked if entry and one in entry.ignored_options)
    return sorted(_SPELLED.get(one, one) for one in asked)
