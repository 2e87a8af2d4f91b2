"""Carry out a plan with as few requests as possible.

Create with POST, change with server-side apply, and send nothing when the stored child satisfies the intent already.
Only POST decides that a child is absent: the cache may miss one whose label was taken away. Strangers' objects are
never touched. Errors are returned, not raised, so that they reach the status before the next try.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from modelyard.core import names
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

    from modelyard.core.objects import Json, Stored
    from modelyard.kube.client import Client
    from modelyard.runtime.cache import Cache
    from modelyard.runtime.drift import Drift

NAME_TAKEN_WAIT = RequeueAfter(60.0, "the name of a child is taken")
CLEANUP_WAIT = RequeueAfter(2.0, "a child of an earlier object is still there")
REFUSED_WAIT = RequeueAfter(60.0, "the cluster refuses a child")
NEW_KIND_WAIT = RequeueAfter(5.0, "the API server learns of a new kind of owner")
CONTESTED_WAIT = RequeueAfter(REPAIR_WINDOW, "somebody keeps changing a child")
_OWNER_UNKNOWN = "cannot find RESTMapping"
"""Of a cluster that checks who may block the deletion of an owner: it reads the list of kinds twice a minute."""


class Blocked(ModelyardError):
    """The plan cannot go on until something changes."""

    def __init__(self, problem: Problem, requeue_after: RequeueAfter) -> None:
        super().__init__(problem.text)
        self.problem, self.requeue_after = problem, requeue_after


class _Progress:
    """What was done so far of one plan."""

    def __init__(self) -> None:
        self.stored: list[Stored] = []
        self.deleted: list[Ref] = []
        self.restored: list[str] = []
        self.warnings: list[Problem] = []

        self.failed: dict[str, Outcome] = {}
        """How groups ended that could not be written."""

    def outcome(self, trunk: Outcome) -> Outcome:
        """Return the outcome of the plan: how its trunk ended, and what has to be said and done besides."""
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
    """Carries out plans."""

    def __init__(self, client: Client, caches: Mapping[Resource, Cache], drift: Drift) -> None:
        self._client, self._caches, self._drift = client, caches, drift
        self._uncertain: set[tuple[Resource, Key]] = set()
        self._shared_lock = asyncio.Lock()

    async def carry_out(self, owner: Stored, plan: Plan) -> Outcome:
        """Do what a plan says, in its order. What cannot be done ends its group, or the whole plan if it has none."""
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
            # Nothing can be created there any more. To wait for it would keep the finalizer, and so the namespace.
            if not (error.namespace_terminating and owner.meta.deleting):
                raise

    async def _ensure_child(self, owner: Stored, child: Child, done: _Progress) -> Stored:
        key = Key(owner.meta.namespace, child.name)
        body = full_body(owner, child)
        live = await self._get_live(child.resource, key)
        if live is None and (created := await self._create(child, key, body)):
            return self._verified(created, body, done)
        live = live or await self._client.get(child.resource, key)
        _check_ownership(owner, live)
        self._cache_read(live)
        body = _with_stored_owner(live, body)
        if live.meta.annotation(names.INTENT) == body["metadata"]["annotations"][names.INTENT]:
            difference = first_difference(body, live.to_dict())
            if difference is None:
                return live
            if warning := self._drift.begin_repair(live, difference):
                done.warnings.append(warning)
                return live
            done.restored.append(f"{child.resource.kind} {child.name}: {difference}")
        # If the change is refused, what is there still serves; one of an earlier operator is in no cache.
        done.stored.append(live)
        answer = await self._change(child, key, body, live)
        return self._verified(answer, body, done)

    async def _ensure_created(self, owner: Stored, child: CreateOnly) -> Stored | None:
        if child.shared:
            key = Key(owner.meta.namespace, child.name)
            if live := self._caches[child.resource].get(key):
                return live
            # Hundreds of objects may want the same one at the same moment: the first creates it, the others see it.
            async with self._shared_lock:
                return await self._find_or_create(child, in_namespace_of(owner, child.body))
        live = await self._find_or_create(child, with_owner(owner, child.body))
        live = live or await self._client.get(child.resource, Key(owner.meta.namespace, child.name))
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
        # An answer was lost: what the cache holds may be from before that write.
        try:
            live = await self._client.get(resource, key)
        except NotFound:
            live = None
        self._uncertain.discard((resource, key))
        if live is not None:
            self._cache_read(live)
        return live

    def _cache_read(self, live: Stored) -> None:
        """Take what we have read: what was planned did not know it."""
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
        try:
            await self._client.delete(ref.resource, ref.key, ref.uid)
        except (NotFound, Conflict):
            # Already gone, or the name belongs to a successor by now: either way not ours to delete.
            return
        self._caches[ref.resource].record_delete(ref)

    async def _write(self, resource: Resource, key: Key, request: Awaitable[Stored]) -> Stored:
        # Whatever ends this early, cancellation included, leaves us unsure whether the write was done.
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
    """Return how a step of a plan failed; None: it did not."""
    try:
        await step
    except Blocked as error:
        return Outcome(problem=error.problem, requeue_after=error.requeue_after)
    except KubeError as error:
        return outcome_of_error(error)
    return None


def full_body(owner: Stored, child: Child) -> Json:
    """Return a child's body with what every child carries: where it lives, whose it is, and what was intended."""
    annotations = dict(child.body["metadata"].get("annotations", {}))
    if child.replicas:
        annotations[names.REPLICAS] = child.replicas.recorded
    body = with_owner(owner, {**child.body, "metadata": {**child.body["metadata"], "annotations": annotations}})
    annotations[names.INTENT] = fingerprint(body)
    return body


def with_owner(owner: Stored, body: Json) -> Json:
    """Return a body in its owner's namespace, with the reference by which it is collected when the owner goes."""
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
    """Return a body that is stored where its owner is."""
    return {**body, "metadata": {**body["metadata"], "namespace": owner.meta.namespace}}


def _with_stored_owner(live: Stored, body: Json) -> Json:
    """Return the body with the reference to us as it is stored.

    Who changes a reference needs the right to delete the child, on clusters that check this. An earlier operator may
    have spelled ours differently, and it means the same.
    """
    kept = msgspec.json.decode(msgspec.json.encode(live.meta.controller))
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [kept]}}


def outcome_of_error(error: KubeError) -> Outcome:
    """Return what an error of the API server means for the plan that ran into it."""
    if isinstance(error, Forbidden) and _OWNER_UNKNOWN in error.message:
        what = "the API server does not take children of this kind yet, because its definition is new"
        problem = Problem(Reason.API_UNAVAILABLE, what, "wait for half a minute")
        return Outcome(problem=problem, requeue_after=NEW_KIND_WAIT)
    if isinstance(error, Forbidden) and error.by_role:
        # An API server that has just started refuses everybody for a moment, until it knows the roles.
        problem = Problem(Reason.FORBIDDEN, str(error), "apply deploy/rbac.yaml of this version again")
        return Outcome(problem=problem, retry=True, retry_after=1.0)
    if isinstance(error, Forbidden) and error.namespace_terminating:
        problem = Problem(Reason.WAITING_FOR_CLEANUP, "the namespace is being deleted")
        return Outcome(problem=problem, requeue_after=REFUSED_WAIT)
    if isinstance(error, Forbidden | Invalid | BadRequest) and not _is_uid_mismatch(error):
        # Only a child that an earlier operator has left can differ in what may never change.
        remedy = "delete that object, and it is made again" if "is immutable" in str(error) else "change what it names"
        problem = Problem(Reason.CHILD_REFUSED, f"the API server refuses a child: {error}", remedy)
        return Outcome(problem=problem, requeue_after=REFUSED_WAIT)
    return Outcome(
        problem=Problem(Reason.API_UNAVAILABLE, f"the API server does not carry out changes: {error}"),
        retry=True,
        retry_after=error.retry_after,
        is_news=not isinstance(error, StillBusy),
    )


def _is_watched(child: Stored) -> bool:
    """Return whether the watch tells of it; what lacks our label would stay in a cache for ever."""
    return child.meta.label(names.MANAGED_BY) == names.MANAGER


def _is_uid_mismatch(error: KubeError) -> bool:
    """Return whether the object that we meant was replaced by another one of the same name."""
    return isinstance(error, Invalid) and any(cause.field == "metadata.uid" for cause in error.causes)


def _check_ownership(owner: Stored, live: Stored) -> None:
    if _controls(owner, live):
        return
    what, other = f"{live.resource.kind} {live.meta.name}", live.meta.controller
    if other and other.kind == owner.resource.kind and other.name == owner.meta.name:
        raise Blocked(_left_behind(what), CLEANUP_WAIT)
    holder = f"{other.kind} {other.name}" if other else "somebody else"
    problem = Problem(
        Reason.NAME_CONFLICT,
        f"{what} exists already and belongs to {holder}",
        "rename one of the two, or delete the other if nobody needs it; Modelyard does not touch it",
    )
    raise Blocked(problem, NAME_TAKEN_WAIT)


def _controls(owner: Stored, live: Stored) -> bool:
    controller = live.meta.controller
    return controller is not None and controller.uid == owner.meta.uid


def _left_behind(what: str) -> Problem:
    return Problem(Reason.WAITING_FOR_CLEANUP, f"{what} of an earlier object of this name is still being removed")


def _being_deleted(live: Stored) -> Problem:
    what = f"{live.resource.kind} {live.meta.name}"
    return Problem(Reason.WAITING_FOR_CLEANUP, f"{what} is being deleted and will be created again")
