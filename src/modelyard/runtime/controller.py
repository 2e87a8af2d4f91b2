"""The one reconcile function. Crash safety, staleness, back-off and ownership are solved here, once, for every kind.

Level-based: it gets a key, reads the facts as they are and never asks which event happened. Safe to cancel at any
await, because every step can be done again.

A reconcile ends in one of four ways: done; look again at a time; try again with back-off (the API server was busy or
out of reach); stuck until the user or the world changes. Anything else that is raised is a bug of ours: it is logged,
shown on the object as InternalError, and tried again, without stopping anybody else.
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
from modelyard.kube.errors import KubeError, NotFound
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

HIDDEN_RETRIES: Final = 3
"""So many failures in a row are the API server's business; more than that becomes the user's."""

_log = structlog.get_logger()


class Controller:
    """Looks at one object at a time and brings the cluster one step closer to its spec."""

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
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._kinds, self._client, self._caches, self._queue = kinds, client, caches, queue
        self._gather, self._applier, self._calls, self._events = gather, applier, calls, events
        self._clock, self._metrics = clock, metrics

    async def work(self) -> None:
        """Take keys from the queue until cancelled."""
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
        except Exception as error:
            _log.exception("internal error", kind=item.kind, object=str(item.key))
            outcome = Outcome(problem=_internal_error(error), retry=True, retry_after=1.0)
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
            # No seconds means at once: our own status write does not wake the object that it was written for.
            if later.seconds > 0:
                self._queue.add_after(item, later.seconds)
            else:
                self._queue.add(item)

    async def reconcile(self, item: Item) -> Outcome:
        """Bring one object one step closer to its spec."""
        kind = self._kinds[item.kind]
        stored = self._caches[kind.resource].get(item.key)
        if stored is None or (stored.meta.deleting and not self._must_finalize(kind, stored)):
            self._gather.forget(item)
            self._queue.forget(item)
            return Outcome()
        # Deletion ends a pause: an object that waited for its finalizer would keep its namespace from going, too.
        if stored.meta.annotation(names.PAUSED) == "true" and not stored.meta.deleting:
            await self._write_status(stored, status.paused(stored, self._now()))
            return Outcome()
        try:
            obj = decode(kind, stored)
        except SpecInvalid as error:
            return await self._report_invalid_spec(kind, stored, error)
        if kind.finalize and not stored.meta.deleting and names.FINALIZER not in stored.meta.finalizers:
            # First and alone: whatever we do later can then be undone, wherever we are killed.
            stored = await self._set_finalizers(stored, [*stored.meta.finalizers, names.FINALIZER])
        return await self._reconcile_decoded(item, kind, stored, obj)

    async def _report_invalid_spec(self, kind: Kind, stored: Stored, error: SpecInvalid) -> Outcome:
        if stored.meta.deleting:
            # Nothing can be worked out of this spec, now or later: to wait for a better one would be to wait for ever.
            await self._events.record(stored, Reason.FINALIZER_SKIPPED, _skipped_finalizer_note(error))
            await self._remove_finalizer(stored)
            return Outcome()
        problem = Problem(Reason.INVALID_SPEC, f"{error.field}: {error.wrong}", error.remedy)
        await self._write_status(stored, status.on_error(kind, stored, problem, self._now()))
        return Outcome()

    async def _reconcile_decoded(self, item: Item, kind: Kind, stored: Stored, obj: Object[Any]) -> Outcome:
        """Gather, decide, remember, plan, carry out, and say what came of it."""
        make_plan = kind.finalize if stored.meta.deleting and kind.finalize else kind.plan
        seen = await self._gather(item, kind, obj)
        decided = kind.decided(obj, seen)
        memory = decided[0].memory if kind.memory else None
        if memory != obj.memory:
            # Before anything acts on it: killed after the act, the next look would decide anew, and perhaps otherwise.
            stored = await self._write_status(stored, status.memory_fields(memory))
        plan = make_plan(obj, seen, *decided)
        if stored.meta.deleting and plan == Plan():
            await self._remove_finalizer(stored)
            return Outcome()
        outcome = self._make_calls(item, plan, await self._applier.carry_out(stored, plan))
        for field in outcome.restored:
            await self._events.record(stored, Reason.RESTORED, f"put back what somebody had changed: {field}")
        if self._is_hidden(item, outcome):
            return outcome
        said = kind.summarise(obj, seen.after(outcome), outcome, *decided)
        await self._write_status(stored, status.summary(kind, stored, said, outcome.warning, self._now(), memory))
        return outcome

    def _make_calls(self, item: Item, plan: Plan, outcome: Outcome) -> Outcome:
        """See to it that the calls of a plan are made, and return the outcome with the results known so far.

        Not while the plan is stuck before its calls: those of the last plan go on, so that nothing is given up halfway.
        """
        if outcome.problem or outcome.retry:
            return structs.replace(outcome, results=self._calls.known(item))
        return structs.replace(outcome, results=self._calls.look(item, plan.calls))

    async def _write_status(self, stored: Stored, wanted: Json) -> Stored:
        """Write what differs, if anything does, and return the object as it is stored then."""
        patch = status.merge_patch(stored, wanted, self._now())
        if not patch:
            return stored
        meta = {"resourceVersion": stored.meta.resource_version, "uid": stored.meta.uid}
        try:
            answer = await self._client.merge_patch(
                stored.resource, stored.meta.key, {"metadata": meta, "status": patch}, subresource="status"
            )
        except NotFound as error:
            # Deleted meanwhile, and then the next look does not find it; if it does, this has to be said somewhere.
            raise NotFound(404, error.reason, f"{error}; has its CRD lost the status subresource?") from error
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
        if stored is None or problem is None:
            return
        try:
            await self._write_status(stored, status.on_error(kind, stored, problem, self._now()))
        except KubeError as error:
            _log.debug("status not written", kind=item.kind, object=str(item.key), error=str(error))
        except Exception:
            # A worker that ended here would end all others.
            _log.exception("internal error", kind=item.kind, object=str(item.key))

    def _log_failure(self, item: Item, outcome: Outcome, error: KubeError) -> None:
        """Log what keeps failing, once for each object and not at every try."""
        worth_a_line = not outcome.retry or self._queue.failures(item) == HIDDEN_RETRIES
        log = _log.info if worth_a_line else _log.debug
        log("not carried out", kind=item.kind, object=str(item.key), error=str(error))

    def _is_hidden(self, item: Item, outcome: Outcome) -> bool:
        """Return whether an outcome is not worth telling yet, because the next try will probably succeed."""
        return outcome.retry and self._queue.failures(item) < HIDDEN_RETRIES

    def _must_finalize(self, kind: Kind, stored: Stored) -> bool:
        return kind.finalize is not None and names.FINALIZER in stored.meta.finalizers

    def _now(self) -> str:
        return timestamp(self._clock.now())


def _internal_error(error: Exception) -> Problem:
    return Problem(
        Reason.INTERNAL_ERROR,
        f"Modelyard failed on this object ({type(error).__name__})",
        "the operator's log has the details; please report it",
    )


def _skipped_finalizer_note(error: SpecInvalid) -> str:
    return f"deleted without finalizing, because its spec is not valid any more ({error.field}: {error.wrong})"


def _outcome_label(outcome: Outcome) -> str:
    if outcome.retry:
        return "error" if outcome.problem and outcome.problem.reason is Reason.INTERNAL_ERROR else "retry"
    if outcome.problem:
        return "stuck"
    return "later" if outcome.requeue_after else "done"
