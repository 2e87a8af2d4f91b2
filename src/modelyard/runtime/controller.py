"""The one reconcile function, and the workers that call it: one controller of controller-runtime, for all kinds.

`manager` runs the workers while we lead. Level-based: a reconcile gets a key, reads the state as it is and never asks
which event happened. It can be cancelled at any await, because every step can be repeated.

A reconcile ends in one of four ways: done; requeue after some seconds; retry with back-off, because the API server is
busy or out of reach; stuck until the user or the cluster changes something. Any other exception is a bug of ours: it is
logged, shown on the object as InternalError and retried, and other objects go on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import structs

from modelyard.core import names
from modelyard.core.conditions import Problem
from modelyard.core.errors import SpecInvalid
from modelyard.core.plan import Outcome, Plan
from modelyard.core.reasons import Reason
from modelyard.core.times import timestamp
from modelyard.kinds.decode import decode
from modelyard.kube.errors import Invalid, KubeError, NotFound
from modelyard.runtime import status
from modelyard.runtime.apply import outcome_of_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from modelyard.core.objects import Json, Stored
    from modelyard.core.resources import Resource
    from modelyard.kinds.contract import Kind, Object
    from modelyard.kube.client import Client
    from modelyard.runtime.apply import Applier
    from modelyard.runtime.cache import Cache
    from modelyard.runtime.clock import Clock
    from modelyard.runtime.dependents import Item
    from modelyard.runtime.events import EventRecorder
    from modelyard.runtime.gather import Gatherer, Poller
    from modelyard.runtime.metrics import Metrics
    from modelyard.runtime.queue import Queue
    from modelyard.runtime.unkept_status import UnkeptStatus

HIDDEN_RETRIES: Final = 3
"""After so many failures in a row, the status reports them. Most are over by then, and need no write."""

_INTERNAL_ERROR: Final = Problem(
    Reason.INTERNAL_ERROR,
    "Modelyard failed on this object, because of an error of its own",
    "see the operator's log, and please report it",
)

_log = structlog.get_logger()


class Controller:
    """Reconciles objects of all kinds. Its workers run side by side, never two of them on one object."""

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        client: Client,
        caches: Mapping[Resource, Cache],
        queue: Queue[Item],
        gather: Gatherer,
        applier: Applier,
        calls: Poller,
        events: EventRecorder,
        unkept: UnkeptStatus,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._kinds, self._client, self._caches, self._queue = kinds, client, caches, queue
        self._gather, self._applier, self._calls, self._events = gather, applier, calls, events
        self._unkept, self._clock, self._metrics = unkept, clock, metrics

    async def work(self) -> None:
        """Reconcile items from the queue until cancelled: one worker."""
        while True:
            item = await self._queue.get()
            try:
                await self._process(item)
            finally:
                self._queue.done(item)

    async def _process(self, item: Item) -> None:
        began = time.perf_counter()
        try:
            outcome = await self.reconcile(item)
        except KubeError as error:
            outcome = outcome_of_error(error)
            self._log_failure(item, outcome, error)
            if not self._is_hidden(item, outcome):
                await self._report_problem(item, outcome.problem)
        except Exception:
            _log.exception("internal error", kind=item.kind, object=str(item.key))
            outcome = Outcome(problem=_INTERNAL_ERROR, retry=True, retry_after=1.0)
            await self._report_problem(item, outcome.problem)
        self._metrics.reconciled(item.kind, _outcome_label(outcome), time.perf_counter() - began)
        self._schedule(item, outcome)

    def _schedule(self, item: Item, outcome: Outcome) -> None:
        if outcome.retry:
            if outcome.is_news:
                self._queue.retry(item, at_least=outcome.retry_after)
            else:
                self._queue.add_after(item, outcome.retry_after)
            return
        self._queue.succeeded(item)
        if later := outcome.requeue_after:
            # Without this, a step machine would stop after its first step: a status write does not wake its own object.
            if later.seconds > 0:
                self._queue.add_after(item, later.seconds)
            else:
                self._queue.add(item)

    async def reconcile(self, item: Item) -> Outcome:
        """Bring the cluster one step closer to the spec of one object; the outcome says when to do so again."""
        kind = self._kinds[item.kind]
        stored = self._caches[kind.resource].get(item.key)
        if stored is None or (stored.meta.deleting and not self._must_finalize(kind, stored)):
            self._gather.forget(item)
            self._queue.forget(item)
            return Outcome()
        # Deletion ends a pause. Otherwise a paused object would keep its finalizer, and with it its namespace.
        if stored.meta.annotation(names.PAUSED) == "true" and not stored.meta.deleting:
            if kind.status is not None:
                await self._write_status(stored, status.paused(stored, self._now()))
            return Outcome()
        try:
            obj = decode(kind, stored)
        except SpecInvalid as error:
            return await self._report_invalid_spec(kind, stored, error)
        if kind.finalize and not stored.meta.deleting and names.FINALIZER not in stored.meta.finalizers:
            # First and alone. Added later, or together with something else, a crash in between could leave something
            # behind that `finalize` is never asked to remove.
            stored = await self._set_finalizers(stored, [*stored.meta.finalizers, names.FINALIZER])
        return await self._reconcile_decoded(item, kind, stored, obj)

    async def _report_invalid_spec(self, kind: Kind, stored: Stored, error: SpecInvalid) -> Outcome:
        if stored.meta.deleting:
            # `finalize` needs a spec that decodes, and this one will not change any more: waiting would never end.
            await self._events.record(stored, Reason.FINALIZER_SKIPPED, _skipped_finalizer_note(error))
            await self._remove_finalizer(stored)
            return Outcome()
        problem = Problem(Reason.INVALID_SPEC, f"{error.field}: {error.wrong}", error.remedy)
        await self._show_problem(kind, stored, problem)
        return Outcome()

    async def _reconcile_decoded(self, item: Item, kind: Kind, stored: Stored, obj: Object[Any]) -> Outcome:
        """Gather, decide, remember, plan, carry out, summarise: the steps of ARCHITECTURE.md."""
        make_plan = kind.finalize if stored.meta.deleting and kind.finalize else kind.plan
        seen = await self._gather(item, kind, obj)
        decided = kind.decided(obj, seen)
        memory = decided[0].memory if kind.memory else None
        if memory != obj.memory:
            # Before anything acts on it. Killed between the act and a later write, the next reconcile would decide
            # anew and perhaps differently, and the first act would be forgotten.
            stored = await self._write_status(stored, status.memory_fields(memory))
        plan = make_plan(obj, seen, *decided)
        if stored.meta.deleting and plan == Plan():
            await self._remove_finalizer(stored)
            return Outcome()
        outcome = self._make_calls(item, plan, await self._applier.carry_out(stored, plan))
        for field in outcome.restored:
            await self._events.record(stored, Reason.RESTORED, f"restored what another client had changed: {field}")
        if self._is_hidden(item, outcome):
            return outcome
        if kind.summarise is None:
            await self._show_problem(kind, stored, outcome.problem)
            return outcome
        said = kind.summarise(obj, seen.after(outcome), outcome, *decided)
        await self._write_status(stored, status.summary(kind, stored, said, outcome.warning, self._now(), memory))
        return outcome

    def _make_calls(self, item: Item, plan: Plan, outcome: Outcome) -> Outcome:
        """Hand the calls of a plan to the poller, and return the outcome with the results known so far.

        A plan that failed before its calls leaves those of the last plan as they are: to drop them would cancel calls
        that the next plan names again.
        """
        if outcome.problem or outcome.retry:
            return structs.replace(outcome, results=self._calls.known(item))
        return structs.replace(outcome, results=self._calls.look(item, plan.calls))

    async def _write_status(self, stored: Stored, wanted: Json) -> Stored:
        """Write the status fields that differ, if any, and return the object as it is stored afterwards."""
        patch = status.merge_patch(stored, wanted, self._now())
        if not patch or self._unkept.is_known(stored, patch):
            return stored
        meta = {"resourceVersion": stored.meta.resource_version, "uid": stored.meta.uid}
        try:
            answer = await self._client.merge_patch(
                stored.resource, stored.meta.key, {"metadata": meta, "status": patch}, subresource="status"
            )
        except NotFound as error:
            # Most likely the object was deleted, and the next reconcile will not find it. If it does, this hint helps.
            raise NotFound(404, error.reason, f"{error}; has its CRD lost the status subresource?") from error
        except Invalid as error:
            # The object itself cannot say so: that would be a status.
            await self._events.record(stored, Reason.STATUS_REFUSED, _refused_status_note(error))
            raise
        self._unkept.record_response(answer, status.merge_patch(answer, wanted, self._now()))
        self._caches[stored.resource].record_write(answer)
        await self._events.record_change(stored, wanted)
        return answer

    async def _remove_finalizer(self, stored: Stored) -> None:
        await self._set_finalizers(stored, [name for name in stored.meta.finalizers if name != names.FINALIZER])

    async def _set_finalizers(self, stored: Stored, finalizers: list[str]) -> Stored:
        meta = {"resourceVersion": stored.meta.resource_version, "uid": stored.meta.uid, "finalizers": finalizers}
        answer = await self._client.merge_patch(stored.resource, stored.meta.key, {"metadata": meta})
        self._caches[stored.resource].record_write(answer)
        return answer

    async def _report_problem(self, item: Item, problem: Problem | None) -> None:
        kind = self._kinds[item.kind]
        stored = self._caches[kind.resource].get(item.key)
        if stored is None:
            return
        try:
            await self._show_problem(kind, stored, problem)
        except KubeError as error:
            _log.debug("status not written", kind=item.kind, object=str(item.key), error=str(error))
        except Exception:
            # Raised, it would end this worker, and its task group would end all others.
            _log.exception("internal error", kind=item.kind, object=str(item.key))

    async def _show_problem(self, kind: Kind, stored: Stored, problem: Problem | None) -> None:
        """Show a problem in the status, or as an event of an object whose status is not ours. None: there is none."""
        if problem is None:
            return
        if kind.status is None:
            await self._events.record(stored, problem.reason, problem.text)
        else:
            await self._write_status(stored, status.on_error(kind, stored, problem, self._now()))

    def _log_failure(self, item: Item, outcome: Outcome, error: KubeError) -> None:
        """Log a failure at level info once per object, when the status reports it, and at level debug otherwise."""
        worth_a_line = not outcome.retry or self._queue.failures(item) == HIDDEN_RETRIES
        log = _log.info if worth_a_line else _log.debug
        log("not carried out", kind=item.kind, object=str(item.key), error=str(error))

    def _is_hidden(self, item: Item, outcome: Outcome) -> bool:
        """Return whether an outcome stays out of the status for now, because the next try will probably succeed."""
        # Woken while it waits out a Retry-After, an object has not failed again.
        in_a_row = self._queue.failures(item) + (1 if outcome.is_news else 0)
        return outcome.retry and in_a_row <= HIDDEN_RETRIES

    def _must_finalize(self, kind: Kind, stored: Stored) -> bool:
        return kind.finalize is not None and names.FINALIZER in stored.meta.finalizers

    def _now(self) -> str:
        return timestamp(self._clock.now())


def _skipped_finalizer_note(error: SpecInvalid) -> str:
    return f"deleted without cleanup, because its spec is no longer valid ({error.field}: {error.wrong})"


def _refused_status_note(error: Invalid) -> str:
    return (
        "its status cannot be written, because its definition is of another version or another operator; apply "
        f"deploy/crds.yaml of this version ({error})"
    )


def _outcome_label(outcome: Outcome) -> str:
    if outcome.retry:
        return "error" if outcome.problem and outcome.problem.reason is Reason.INTERNAL_ERROR else "retry"
    if outcome.problem:
        return "stuck"
    return "later" if outcome.requeue_after else "done"
