"""The plan of an InferenceModel: Service, EndpointSlices, and what hosts are asked to load and unload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.plan import Plan, RequeueAfter
from modelyard.core.resources import ENDPOINT_SLICE, SERVICE
from modelyard.kinds.contract import Owned
from modelyard.kinds.inferencemodel.endpoints import HEADLESS, endpoints, families, service, slices
from modelyard.kinds.inferencemodel.front import front, lender
from modelyard.kinds.inferencemodel.life import moment
from modelyard.kinds.inferencemodel.reads import has_foreign_endpoints

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.core.plan import Child
    from modelyard.core.resources import Ref
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferencemodel.api import InferenceModelSpec
    from modelyard.kinds.inferencemodel.decide import Decision

LEAVE_SECONDS: Final = 300.0
"""A host that is gone for good must not keep the object for ever."""

_FOREIGN: Final = RequeueAfter(60.0, "Endpoints of another client are looked for again; no watch tells of them")
_ANEW: Final = RequeueAfter(0.0, "the Service is made anew, because its clusterIP cannot change")


def plan(model: Object[InferenceModelSpec], seen: Seen, decision: Decision) -> Plan:
    """Return the plan of one InferenceModel."""
    stored, is_lent = front(model, seen), lender(model) is not None
    if stored and not is_lent and not stored.meta.deleting and _is_headless(stored) != model.spec.headless:
        return Plan(delete=(stored.ref,), requeue_after=_ANEW)
    # A Service of its own, from before an InferenceService lent one, would keep that from being created.
    replaced = tuple(one.ref for one in seen.all(Owned(SERVICE))) if is_lent else ()
    wanted = slices(model, endpoints(decision, families(stored))) if stored or not is_lent else ()
    return Plan(
        # The Service first: if its name is taken, our slices would lead its clients to our hosts.
        apply=wanted if is_lent else (service(model), *wanted),
        delete=(*_obsolete(seen, wanted), *replaced),
        calls=(*decision.unloads, *decision.loads),
        requeue_after=_next_look(model, seen, decision),
    )


def finalize(model: Object[InferenceModelSpec], seen: Seen, decision: Decision) -> Plan:
    """Return what is left to do before the object may go; empty: all is unloaded, or given up, and children are gone.

    They go last, so that requests end at endpoints that exist, and before the object does: garbage collection takes
    its time, and what has the name of the Service next would wait for it.
    """
    pending = decision.memory.pending_unloads
    # Also by our own clock, which noted the unloads: that of the API server may be far behind it.
    began = max(moment(one, seen.now) for one in (model.meta.deletion_timestamp or "", *(one.since for one in pending)))
    left = LEAVE_SECONDS - (seen.now - began).total_seconds()
    if left <= 0 or not pending:
        return Plan(delete=tuple(one.ref for one in _children(seen) if not one.meta.deleting))
    later = decision.requeue_after
    wanted = slices(model, endpoints(decision, families(front(model, seen))))
    present = {one.meta.name for one in seen.all(Owned(ENDPOINT_SLICE))}
    return Plan(
        # Nothing is created: the namespace may be going, too.
        apply=tuple(child for child in wanted if child.name in present),
        delete=_obsolete(seen, wanted),
        calls=decision.unloads,
        requeue_after=RequeueAfter(min(left, later.seconds if later else left), "hosts unload, or are given up"),
    )


def _next_look(model: Object[InferenceModelSpec], seen: Seen, decision: Decision) -> RequeueAfter | None:
    waits = [decision.requeue_after, _FOREIGN if has_foreign_endpoints(model, seen) else None]
    return min(filter(None, waits), key=lambda wait: wait.seconds, default=None)


def _children(seen: Seen) -> tuple[Stored, ...]:
    return (*seen.all(Owned(SERVICE)), *seen.all(Owned(ENDPOINT_SLICE)))


def _is_headless(stored: Stored) -> bool:
    return stored.spec.get("clusterIP") == HEADLESS


def _obsolete(seen: Seen, wanted: tuple[Child, ...]) -> tuple[Ref, ...]:
    names = {child.name for child in wanted}
    return tuple(one.ref for one in seen.all(Owned(ENDPOINT_SLICE)) if one.meta.name not in names)
