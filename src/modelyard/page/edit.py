"""What may be changed from the page when it was started with `--edit`: a few verbs, each one request to the API server.

The user's own rights decide whether it succeeds. Every change names the UID that the browser has seen, so that it never
meets a later object of the same name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core import names
from modelyard.core.errors import ModelyardError
from modelyard.kinds.modeldeployment.api import RESOURCE as MODEL_DEPLOYMENT
from modelyard.kinds.modeldeployment.api import RETRY

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.kube.client import Client

Json = dict[str, Any]

_MOST_REPLICAS: Final = 1000


class Action(StrEnum):
    """A change that the page offers."""

    SCALE = "scale"
    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    DELETE = "delete"


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """One change of one object."""

    id: str
    uid: str
    action: Action
    replicas: int = 0
    """For `scale`."""


class CannotEdit(ModelyardError):
    """The change makes no sense for the object."""


def actions_of(item: Stored, *, has_replicas: bool) -> tuple[Action, ...]:
    """Return what the page offers to do with an object."""
    if item.meta.deleting:
        return ()
    is_paused = item.meta.annotation(names.PAUSED) == "true"
    retry = (Action.RETRY,) if item.resource == MODEL_DEPLOYMENT else ()
    scale = (Action.SCALE,) if has_replicas else ()
    return (*scale, *retry, Action.RESUME if is_paused else Action.PAUSE, Action.DELETE)


async def carry_out(client: Client, item: Stored, edit: Edit, now: str) -> None:
    """Make the change. Conflict: the object is another by now."""
    if edit.action is Action.DELETE:
        await client.delete(item.resource, item.meta.key, edit.uid)
        return
    patch = _patch(edit, now)
    await client.merge_patch(
        item.resource, item.meta.key, {**patch, "metadata": {**patch["metadata"], "uid": edit.uid}}
    )


def _patch(edit: Edit, now: str) -> Json:
    if edit.action is Action.SCALE:
        if not 0 <= edit.replicas <= _MOST_REPLICAS:
            raise CannotEdit(f"replicas must be between 0 and {_MOST_REPLICAS}")
        return {"metadata": {}, "spec": {"replicas": edit.replicas}}
    if edit.action is Action.RETRY:
        return {"metadata": {"annotations": {RETRY: now}}}
    return {"metadata": {"annotations": {names.PAUSED: "true" if edit.action is Action.PAUSE else None}}}
