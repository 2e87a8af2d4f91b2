"""The InferenceHosts as an InferenceModel sees them: facets of their spec and status, so that only news wake it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.conditions import Truth
from modelyard.core.hosts import HostAddress, comparable_id
from modelyard.core.quantities import quantity
from modelyard.core.reasons import Reason
from modelyard.kinds.contract import Every
from modelyard.kinds.inferencehost.api import RESOURCE, InferenceHostSpec, InferenceHostStatus, Loaded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.core.conditions import Condition
    from modelyard.core.objects import Stored

_ANSWERING: Final = ("Reachable", "Authenticated")


class Host(Struct, frozen=True):
    """One host."""

    name: str
    labels: dict[str, str]
    address: HostAddress
    """How its daemon is called."""
    ip: str
    """Where pods reach it; empty: nowhere."""
    port: int
    answers: bool
    """Whether its daemon answers and lets the operator in."""
    refuses: bool
    """Whether its daemon answers, and does not let the operator in."""
    asked: bool
    """Whether it was ever asked. One that was created a moment ago was not."""
    since: str
    """Since when it does, or does not."""
    schedulable: bool
    cordoned: bool
    leaving: bool
    """Whether all models have to leave it."""
    budget: int | None
    """Bytes for models; None: not known."""
    free: int | None
    """Bytes that it reports as free; None: it does not say."""
    pressure: str
    """How short of memory it is; empty: it does not say."""
    max_models: int
    models: tuple[Loaded, ...]
    """The models of its last answer."""

    def loaded(self, model: str) -> Loaded | None:
        """Return one model of the host; None: it does not have it."""
        wanted = self.comparable(model)
        return next((one for one in self.models if self.comparable(one.id) == wanted), None)

    def comparable(self, model: str) -> str:
        """Return the id of a model in the one spelling in which ids of this host can be compared."""
        return comparable_id(model, self.address.protocol)


def hosts(namespace: str) -> Every[Host]:
    """Return the read of all hosts of a namespace, also of those that a selector does not match any more."""
    return Every(RESOURCE, host_of, namespace)


def host_of(stored: Stored) -> Host | None:
    """Return the facet of an InferenceHost; None: its spec is not valid, so that it cannot be called."""
    try:
        spec = msgspec.json.decode(stored.parts.get("spec", b"{}"), type=InferenceHostSpec)
        status = msgspec.json.decode(stored.parts.get("status", b"{}"), type=InferenceHostStatus)
        address = spec.address_in(stored.meta.namespace)
    except (msgspec.ValidationError, ValueError):
        return None
    if status.endpoint != spec.url:
        # It is of another machine.
        status = InferenceHostStatus()
    told = {entry.type: entry for entry in status.conditions}
    answers = all(_is_true(told, name) for name in _ANSWERING)
    return Host(
        name=stored.meta.name,
        labels=stored.meta.labels or {},
        address=address,
        ip=status.address,
        port=spec.port,
        answers=answers,
        refuses=_is_true(told, "Reachable") and not answers,
        asked=_is_asked(told),
        since=_since(told, answers=answers),
        schedulable=_is_true(told, "Schedulable") and not spec.unschedulable,
        cordoned=spec.unschedulable,
        leaving=spec.drain or stored.meta.deleting,
        budget=_budget(spec, status),
        free=int(quantity(status.memory.free)) if status.memory.free else None,
        pressure=status.memory.pressure,
        max_models=spec.capacity.max_models,
        models=status.models,
    )


def _is_true(told: Mapping[str, Condition], name: str) -> bool:
    return name in told and told[name].status is Truth.TRUE


def _is_asked(told: Mapping[str, Condition]) -> bool:
    return "Reachable" in told and told["Reachable"].reason != Reason.WAITING_FOR_ANSWER


def _since(told: Mapping[str, Condition], *, answers: bool) -> str:
    """Return since when a host answers, or does not: the latest change of the conditions that say so."""
    wanted = Truth.TRUE if answers else Truth.FALSE
    saying = (told[name] for name in _ANSWERING if name in told and told[name].status is wanted)
    return max((one.last_transition_time for one in saying), default="")


def _budget(spec: InferenceHostSpec, status: InferenceHostStatus) -> int | None:
    if not status.memory.total:
        return None
    reserved = quantity(spec.capacity.reserved) if spec.capacity.reserved else 0
    return max(0, int(quantity(status.memory.total) - reserved))
