"""Kubernetes Events for problems, recoveries and repaired fields: the EventRecorder of client-go.

`controller` records what changes in a status. There are none on the way from create to Ready, because each is a write,
and the same reason is recorded for the same object once a minute at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from modelyard.core.conditions import stored_condition
from modelyard.core.events import Reporter, event
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.core.resources import EVENT
from modelyard.kube.errors import Forbidden, KubeError

if TYPE_CHECKING:
    from modelyard.core.objects import Json, Stored
    from modelyard.kube.client import Client
    from modelyard.runtime.clock import Clock

REPEAT_SECONDS: Final = 60.0
"""How long an event of the same object with the same reason is dropped."""

_log = structlog.get_logger()


class EventRecorder:
    """Writes events, best effort: one that cannot be written is logged and forgotten."""

    def __init__(self, client: Client, clock: Clock, instance: str) -> None:
        self._client, self._clock = client, clock
        self._reporter = Reporter("modelyard.dev/operator", instance, "Reconcile")
        self._recent: dict[tuple[str, Reason], float] = {}
        self._with_problem: set[str] = set()

    async def record_change(self, about: Stored, after: Json) -> None:
        """Record the event of a change from the stored status to the next, if it deserves one."""
        uid = about.meta.uid
        told = event_for_change(about.status, after)
        if told is None and uid in self._with_problem and stored_condition(after, "Ready").get("status") == "True":
            told = Reason.RECOVERED, "the problem is gone"
        if told is None:
            return
        if told[0] in PROBLEMS:
            self._with_problem.add(uid)
        else:
            self._with_problem.discard(uid)
        await self.record(about, *told)

    async def record(self, about: Stored, reason: Reason, note: str) -> None:
        """Write one event, unless one with the same reason was written for this object in the last minute."""
        now = self._clock.monotonic()
        self._recent = {key: at for key, at in self._recent.items() if now - at < REPEAT_SECONDS}
        if (about.meta.uid, reason) in self._recent:
            return
        self._recent[about.meta.uid, reason] = now
        body = event(about, self._reporter, reason.value, note, self._clock.now(), warning=reason in PROBLEMS)
        try:
            await self._client.create(EVENT, body)
        except KubeError as error:
            # In a namespace that is being deleted every object gets into trouble, and no event can be created.
            log = _log.debug if isinstance(error, Forbidden) and error.namespace_terminating else _log.warning
            log("event not written", object=str(about.meta.key), reason=reason.value, error=str(error))

    def forget(self, uid: str) -> None:
        """Drop what is known of an object that is gone."""
        self._with_problem.discard(uid)


def event_for_change(before: Json, after: Json) -> tuple[Reason, str] | None:
    """Return the reason and note of the event for a change of status; None: it deserves none."""
    for kind in ("Ready", "Applied"):
        old, new = stored_condition(before, kind), stored_condition(after, kind)
        reason = _as_reason(new.get("reason"))
        is_other = any(old.get(part) != new.get(part) for part in ("reason", "message"))
        if reason and reason in PROBLEMS and is_other:
            return reason, str(new.get("message", ""))
        if new.get("status") == "True" and _as_reason(old.get("reason")) in PROBLEMS:
            return Reason.RECOVERED, "the problem is gone"
    return None


def _as_reason(reason: Any) -> Reason | None:
    try:
        return Reason(reason)
    except ValueError:
        return None
