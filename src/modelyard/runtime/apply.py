"""Carry out a plan with as few requests as possible: POST to create, server-side apply to change, or nothing.

`controller` calls it once per reconcile. Where others compare by hand or apply every time, the cache is compared with
the intent field by field, and nothing is sent when all of it holds.

- Only a POST proves that a child is absent: a child that has lost its label is in no cache.
- A child that another object controls, or none, is never changed.
- Errors are returned, not raised, so that they reach the status before the next try.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from modelyard.core import exec_limits, names
from modelyard.core.conditions import Problem
from modelyard.core.diff import fingerprint, first_difference
from modelyard.core.errors import ModelyardError
from modelyard.core.managed_fields import as_applied
from modelyard.core.plan import Child, CreateOnly, Outcome, Plan, RequeueAfter
from modelyard.core.reasons import Reason
from modelyard.core.resources import Key, Ref, Resource
from modelyard.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    StillBusy,
    Unavailable,
)
from modelyard.runtime.drift import REPAIR_WINDOW

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping

    from modelyard.core.objects import Json, OwnerReference, Stored
    from modelyard.kube.client import Client
    from modelyard.runtime.cache import Cache
    from modelyard.runtime.drift import Drift

NAME_TAKEN_WAIT = RequeueAfter(60.0, "the name of a child is taken")
CLEANUP_WAIT = RequeueAfter(2.0, "a child of an earlier object is still there")
REFUSED_WAIT = RequeueAfter(60.0, "the cluster refuses a child")
NEW_KIND_WAIT = RequeueAfter(5.0, "the API server learns of a new kind of owner")
CONTESTED_WAIT = RequeueAfter(REPAIR_WINDOW, "another client keeps changing a child")
_WEBHOOK_FAILS = "failed calling webhook"
"""Said when an admission webhook does not answer and its failurePolicy is Fail."""
_REFUSAL_REMEDIES = {
    # Our own plans never change an immutable field: such a child was created by an earlier operator.
    "is immutable": "delete that object; it is created again",
    "exceeded quota": "raise the quota, or delete what uses it up",
}
"""What to do about a refused child, by words of the refusal."""
_OWNER_UNKNOWN = "cannot find RESTMapping"
"""Said by the admission plugin OwnerReferencesPermissionEnforcement, which learns of a new CRD within half a minute."""


class Blocked(ModelyardError):
    """A child cannot be written until the user or the cluster changes something."""

    def __init__(self, problem: Problem, requeue_after: RequeueAfter) -> None:
        super().__init__(problem.text)
        self.problem, self.requeue_after = problem, requeue_after


class _Progress:
    """What has been done so far of one plan."""

    def __init__(self) -> None:
        self.stored: list[Stored] = []
        self.deleted: list[Ref] = []
        self.restored: list[str] = []
        self.warnings: list[Problem] = []

        self.failed: dict[str, Outcome] = {}
        """The outcomes of groups that could not be written, by name."""

    def outcome(self, trunk: Outcome) -> Outcome:
        """Return the outcome of the plan: that of its trunk, with the problems and retries of the groups added."""
        refused = {group: failure.problem for group, failure in self.failed.items() if failure.problem}
        endings = (trunk, *self.failed.values())
        retries = [one for one in endings if one.retry]
        return msgspec.structs.replace(
            trunk,
            requeue_after=self._soonest(endings),
            stored=tuple(self.stored),
            deleted=tuple(self.deleted),
            restored=tuple(self.restored),
            warning=next(iter([*self.warnings, *refused.values()]), None),
            refused=refused,
            retry=bool(retries),
            retry_after=max((one.retry_after for one in retries), default=0.0),
            is_news=any(one.is_news for one in retries) or not retries,
        )

    def _soonest(self, endings: Iterable[Outcome]) -> RequeueAfter | None:
        contested = any(one.reason is Reason.FIELD_CONTESTED for one in self.warnings)
        waits = [one.requeue_after for one in endings if one.requeue_after]
        return min([*waits, *([CONTESTED_WAIT] if contested else [])], key=lambda wait: wait.seconds, default=None)


class Applier:
    """Carries out plans. It remembers which writes had no response, and otherwise keeps its state in the caches."""

    def __init__(self, client: Client, caches: Mapping[Resource, Cache], drift: Drift) -> None:
        self._client, self._caches, self._drift = client, caches, drift
        self._uncertain: set[tuple[Resource, Key]] = set()
        """Children of which we do not know whether the last write was carried out."""
        self._shared_lock = asyncio.Lock()

    async def carry_out(self, owner: Stored, plan: Plan) -> Outcome:
        """Write and delete children in the order of the plan. A failure ends its group, or the plan if it has none."""
        if plan.blocked:
            return Outcome(problem=plan.blocked, requeue_after=plan.requeue_after)
        done = _Progress()
        for child in plan.apply:
            if child.group in done.failed:
                continue
            if failure := await _failure(self._ensure(owner, child, done)):
                if not child.group:
                    return done.outcome(failure)
                done.failed[child.group] = failure
        for ref in plan.delete:
            if failure := await _failure(self._delete(owner, ref)):
                return done.outcome(failure)
            done.deleted.append(ref)
        return done.outcome(Outcome(requeue_after=plan.requeue_after))

    async def _ensure(self, owner: Stored, child: Child | CreateOnly, done: _Progress) -> None:
        try:
            if isinstance(child, Child):
                done.stored.append(await self._ensure_child(owner, child, done))
            elif made := await self._ensure_created(owner, child):
                done.stored.append(made)
        except Forbidden as error:
            # Nothing can be created in this namespace any more. A finalizer that waited for it would keep both the
            # object and the namespace for ever.
            if not (error.namespace_terminating and owner.meta.deleting):
                raise

    async def _ensure_child(self, owner: Stored, child: Child, done: _Progress) -> Stored:
        if problem := exec_limits.find_problem(child.body):
            raise Blocked(problem, REFUSED_WAIT)
        key = Key(owner.meta.home, child.name)
        body = full_body(owner, child)
        live = await self._get_live(child.resource, key)
        if live is None and (created := await self._create(child, key, body)):
            return self._verified(created, body, done)
        live = live or await self._client.get(child.resource, key)
        _check_ownership(owner, live, child.if_taken)
        self._cache_read(live)
        body = _with_stored_owner(live, body)
        if live.meta.annotation(names.INTENT) == body["metadata"]["annotations"][names.INTENT]:
            difference = first_difference(body, live.to_dict()) or _scaled_away(child, live)
            if difference is None:
                return live
            if warning := self._drift.begin_repair(live, difference):
                done.warnings.append(warning)
                return live
            done.restored.append(f"{child.resource.kind} {child.name}: {difference}")
        # If the change is refused, the child as it is still serves, and the status must see it. It may be in no cache:
        # one that an earlier operator created lacks our label.
        done.stored.append(live)
        answer = await self._change(child, key, body, live)
        return self._verified(answer, body, done)

    async def _ensure_created(self, owner: Stored, child: CreateOnly) -> Stored | None:
        if child.shared:
            key = Key(owner.meta.home, child.name)
            if live := self._caches[child.resource].get(key):
                return live
            # Hundreds of objects may plan the same child at once. Without the lock, each of them would send a POST, and
            # all but one would get a 409; with it, the others find in the cache what the first has created.
            async with self._shared_lock:
                return await self._find_or_create(child, in_namespace_of(owner, child.body))
        live = await self._find_or_create(child, with_owner(owner, child.body))
        live = live or await self._client.get(child.resource, Key(owner.meta.home, child.name))
        _check_ownership(owner, live)
        return live

    async def _find_or_create(self, child: CreateOnly, body: Json) -> Stored | None:
        key = Key(body["metadata"]["namespace"], child.name)
        try:
            return await self._get_live(child.resource, key) or await self._write(
                child.resource, key, self._client.create(child.resource, body)
            )
        except AlreadyExists:
            return None

    def _verified(self, answer: Stored, body: Json, done: _Progress) -> Stored:
        if warning := self._drift.record_response(answer, first_difference(body, answer.to_dict())):
            done.warnings.append(warning)
        return answer

    async def _get_live(self, resource: Resource, key: Key) -> Stored | None:
        if (resource, key) not in self._uncertain:
            return self._caches[resource].get(key)
        # The response to a write was lost, so the cache may be from before it. A decision based on that could create a
        # child a second time, or take our own change for that of another client.
        try:
            live = await self._client.get(resource, key)
        except NotFound:
            live = None
        self._uncertain.discard((resource, key))
        if live is not None:
            self._cache_read(live)
        return live

    def _cache_read(self, live: Stored) -> None:
        """Put what a GET returned into the cache, and so wake the owner: its plan was made without it."""
        if _is_watched(live):
            self._caches[live.resource].record_read(live)

    async def _create(self, child: Child, key: Key, body: Json) -> Stored | None:
        if child.replicas:
            body = {**body, "spec": {**body["spec"], "replicas": child.replicas.at_creation}}
        try:
            return await self._write(child.resource, key, self._client.create(child.resource, body))
        except AlreadyExists:
            return None

    async def _change(self, child: Child, key: Key, body: Json, live: Stored) -> Stored:
        if live.meta.deleting:
            raise Blocked(_being_deleted(live), CLEANUP_WAIT)
        await self._scale(child, key, live)
        await self._prepare_pruning(child.resource, key, live)
        exact = {**body, "metadata": {**body["metadata"], "uid": live.meta.uid}}
        return await self._write(child.resource, key, self._client.apply(child.resource, key, exact))

    async def _scale(self, child: Child, key: Key, live: Stored) -> None:
        if child.replicas is None:
            return
        number = child.replicas.change(live.meta.annotation(names.REPLICAS), int(live.spec.get("replicas", 1)))
        if number is not None:
            patch = {"metadata": {"uid": live.meta.uid}, "spec": {"replicas": number}}
            await self._client.merge_patch(child.resource, key, patch, subresource="scale")

    async def _prepare_pruning(self, resource: Resource, key: Key, live: Stored) -> None:
        if self._drift.is_prunable(live):
            return
        meta = (await self._client.get_full(resource, key))["metadata"]
        takeover = names.INTENT not in meta.get("annotations", {})
        if entries := as_applied(meta.get("managedFields", []), takeover=takeover):
            wanted = {"resourceVersion": meta["resourceVersion"], "managedFields": entries}
            patch = [{"op": "replace", "path": f"/metadata/{name}", "value": value} for name, value in wanted.items()]
            await self._write(resource, key, self._client.json_patch(resource, key, patch))
        self._drift.mark_prunable(live)

    async def _delete(self, owner: Stored, ref: Ref) -> None:
        live = self._caches[ref.resource].get(ref.key)
        if live is None or live.meta.uid != ref.uid or not _controls(owner, live):
            return
        if live.meta.deleting:
            # It has finalizers, of which the plan may not know. To ask again changes nothing.
            return
        try:
            await self._client.delete(ref.resource, ref.key, ref.uid)
        except (NotFound, Conflict):
            # It is gone, or its name belongs to a new object with another UID: nothing is left to delete.
            return
        self._caches[ref.resource].record_delete(ref)

    async def _write(self, resource: Resource, key: Key, request: Awaitable[Stored]) -> Stored:
        # Marked before the request is sent: a cancellation while we wait for the response runs none of the code below,
        # and the write may have been carried out.
        self._uncertain.add((resource, key))
        try:
            answer = await request
        except KubeError as error:
            if not (isinstance(error, Unavailable) and error.uncertain):
                self._uncertain.discard((resource, key))
            raise
        self._uncertain.discard((resource, key))
        if _is_watched(answer):
            self._caches[resource].record_write(answer)
        return answer


async def _failure(step: Awaitable[None]) -> Outcome | None:
    """Return the outcome of a step that failed; None: it succeeded."""
    try:
        await step
    except Blocked as error:
        return Outcome(problem=error.problem, requeue_after=error.requeue_after)
    except KubeError as error:
        return outcome_of_error(error)
    return None


def _scaled_away(child: Child, live: Stored) -> str | None:
    """Return the path of the number of pods if another client changed one that is fixed; None: it may stay."""
    if child.replicas is None or not child.replicas.fixed:
        return None
    return "spec.replicas" if live.spec.get("replicas", 1) != child.replicas.wanted else None


def full_body(owner: Stored, child: Child) -> Json:
    """Return the body of a child with what all children carry: namespace, owner reference, hash of the intent."""
    annotations = dict(child.body["metadata"].get("annotations", {}))
    if child.replicas:
        annotations[names.REPLICAS] = child.replicas.recorded
    body = with_owner(owner, {**child.body, "metadata": {**child.body["metadata"], "annotations": annotations}})
    annotations[names.INTENT] = fingerprint(body)
    return body


def with_owner(owner: Stored, body: Json) -> Json:
    """Return a body in the namespace of its owner, with the owner reference that garbage collection follows."""
    resource = owner.resource
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.meta.name,
        "uid": owner.meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return in_namespace_of(owner, {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}})


def in_namespace_of(owner: Stored, body: Json) -> Json:
    """Return a body in the namespace of its owner, without an owner reference."""
    return {**body, "metadata": {**body["metadata"], "namespace": owner.meta.home}}


def _with_stored_owner(live: Stored, body: Json) -> Json:
    """Return the body with the owner reference as it is stored, which names us in the spelling of an earlier operator.

    On clusters with OwnerReferencesPermissionEnforcement, changing an owner reference takes the right to delete the
    child, which the operator does not always have.
    """
    kept = msgspec.json.decode(msgspec.json.encode(live.meta.controller))
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [kept]}}


def outcome_of_error(error: KubeError) -> Outcome:
    """Return the outcome of a plan that ran into an error of the API server: stuck, or to be retried."""
    if isinstance(error, Forbidden) and _OWNER_UNKNOWN in error.message:
        what = "the API server does not accept children of this new kind yet"
        problem = Problem(Reason.API_UNAVAILABLE, what, "wait half a minute")
        return Outcome(problem=problem, requeue_after=NEW_KIND_WAIT)
    if isinstance(error, Forbidden) and error.by_role:
        # Retried, because an API server that has just started refuses every client until it has read the roles.
        problem = Problem(Reason.FORBIDDEN, str(error), "apply deploy/rbac.yaml of this version")
        return Outcome(problem=problem, retry=True, retry_after=1.0)
    if isinstance(error, Forbidden) and error.namespace_terminating:
        problem = Problem(Reason.WAITING_FOR_CLEANUP, "the namespace is being deleted")
        return Outcome(problem=problem, requeue_after=REFUSED_WAIT)
    if isinstance(error, Forbidden | Invalid | BadRequest) and not _is_uid_mismatch(error):
        found = (remedy for words, remedy in _REFUSAL_REMEDIES.items() if words in str(error))
        remedy = next(found, "change what is named")
        problem = Problem(Reason.CHILD_REFUSED, f"the API server refuses a child: {error}", remedy)
        return Outcome(problem=problem, requeue_after=REFUSED_WAIT)
    remedy = "repair the webhook, or remove its configuration" if _WEBHOOK_FAILS in error.message else ""
    return Outcome(
        problem=Problem(Reason.API_UNAVAILABLE, f"the API server cannot carry out changes: {error}", remedy),
        retry=True,
        retry_after=error.retry_after,
        is_news=not isinstance(error, StillBusy),
    )


def _is_watched(child: Stored) -> bool:
    """Return whether our watch selects a child. One without our label would stay in the cache after its deletion."""
    return child.meta.label(names.MANAGED_BY) == names.MANAGER


def _is_uid_mismatch(error: KubeError) -> bool:
    """Return whether an apply was refused because its UID is that of an earlier object of the same name."""
    return isinstance(error, Invalid) and any(cause.field == "metadata.uid" for cause in error.causes)


def _check_ownership(owner: Stored, live: Stored, if_taken: str = "") -> None:
    if _controls(owner, live):
        return
    what, other = f"{live.resource.kind} {live.meta.name}", live.meta.controller
    if other and other.kind == owner.resource.kind and other.name == owner.meta.name:
        raise Blocked(_left_behind(what), CLEANUP_WAIT)
    raise Blocked(_name_taken(what, other, if_taken or "rename this object"), NAME_TAKEN_WAIT)


def _name_taken(what: str, holder: OwnerReference | None, if_taken: str) -> Problem:
    if holder is None:
        return Problem(
            Reason.NAME_CONFLICT,
            f"{what} already exists and has no owner: it was created by hand, or its owner was deleted with "
            "--cascade=orphan",
            f"delete it, and it is created again, or {if_taken}; Modelyard never changes it",
        )
    return Problem(
        Reason.NAME_CONFLICT,
        f"{what} already exists and belongs to {holder.kind} {holder.name}",
        f"{if_taken}, or delete the other one if it is not needed; Modelyard never changes it",
    )


def _controls(owner: Stored, live: Stored) -> bool:
    controller = live.meta.controller
    return controller is not None and controller.uid == owner.meta.uid


def _left_behind(what: str) -> Problem:
    return Problem(Reason.WAITING_FOR_CLEANUP, f"{what} of an earlier object with this name is still being deleted")


def _being_deleted(live: Stored) -> Problem:
    what = f"{live.resource.kind} {live.meta.name}"
    return Problem(Reason.WAITING_FOR_CLEANUP, f"{what} is being deleted and will be created again")
