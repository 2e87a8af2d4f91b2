"""Pods that listen with a bot token. An Orchestrator starts its own pod when all others with its token have ended.

Without it, two pods would poll with one token for a while: an Orchestrator that is deleted is gone at once, and its pod
only when garbage collection has found it and its grace period is over. The same holds of one that is renamed, created
anew under its name, or given another token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core import names
from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.core.resources import DEPLOYMENT, POD, Key
from modelyard.core.selectors import Selector
from modelyard.kinds.contract import Every, Owned
from modelyard.kinds.orchestrator.api import RESOURCE
from modelyard.kinds.orchestrator.environment import BOT_TOKEN
from modelyard.kinds.orchestrator.rivals import Bot, bot_of, same_token
from modelyard.kinds.shared.config_refs import env_refs
from modelyard.kinds.shared.pods import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Json, Stored
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.orchestrator.api import OrchestratorSpec
    from modelyard.kinds.shared.config_refs import ConfigRef


class Listener(Struct, frozen=True):
    """A pod that listens: the bot that it runs, and whether it is being deleted."""

    bot: Bot
    leaving: bool


def pod_facet(pod: Stored) -> Listener | None:
    """Return the listener that a pod of any Orchestrator is; None: it does not listen, or has ended."""
    token = _token_of(pod.spec)
    if token is None or pod.status.get("phase") in FINISHED:
        return None
    place = Key(pod.meta.namespace, pod.meta.label(names.INSTANCE_LABEL))
    return Listener(Bot(pod.meta.creation_timestamp or "", place, token), pod.meta.deleting)


LISTENERS: Final = Every(POD, pod_facet, selector=Selector(((names.KIND_LABEL, RESOURCE.kind.lower()),)), within=1.0)
"""The read of all pods that listen. Only bots that are about to start make it, so no others wake each other."""


def reads(own: Bot, seen: Seen) -> Iterator[Read]:
    """Name the pods that listen and their Secrets, for a bot that is about to start."""
    home = own.place.namespace
    if _is_about_to_start(own, seen):
        yield LISTENERS
        yield from (listener.bot.secret_for(home) for listener in seen.every(LISTENERS).values())


def find_problem(orchestrator: Object[OrchestratorSpec], seen: Seen) -> Problem | None:
    """Return the problem that a pod still listens with the token of an Orchestrator; None: its own pod may start."""
    own = bot_of(orchestrator.meta, orchestrator.spec)
    if own is None or not _is_about_to_start(own, seen):
        return None
    home = own.place.namespace
    awaited = {pod: each.bot for pod, each in seen.every(LISTENERS).items() if _is_awaited(own, each, seen)}
    pod = next((pod for pod, bot in awaited.items() if same_token(own, bot, home, seen)), None)
    if pod is None:
        return None
    return Problem(
        Reason.TOKEN_IN_USE,
        f"the pod {pod.name} of the Orchestrator {awaited[pod].name_for(home)} still listens with the same bot token, "
        "and Telegram lets only one pod do so",
        "wait until it has ended, or delete it if nothing else does",
    )


def _is_awaited(own: Bot, listener: Listener, seen: Seen) -> bool:
    """Return whether a pod has to end first: of another Orchestrator, of an earlier one of this name, or one that goes.

    A pod of our own may be seen before its Deployment is, as after a lost answer, and to wait for it would end it.
    """
    if listener.bot.place != own.place:
        return True
    # The strategy of a Deployment that runs ends its own pods first.
    return not _runs(seen) and (listener.leaving or listener.bot.created < own.created)


def _is_about_to_start(own: Bot, seen: Seen) -> bool:
    """Return whether a bot has a token, and no Deployment that runs with it yet."""
    # The Secret is read together with the Deployment, so where it is seen, an absent Deployment does not exist.
    has_token = bool(own.token_hash(own.place.namespace, seen))
    return has_token and not (_runs(seen) and _token_of(_template(seen)) == own.token)


def _runs(seen: Seen) -> bool:
    deployment = seen.one(Owned(DEPLOYMENT))
    return deployment is not None and int(deployment.spec.get("replicas", 1)) > 0


def _template(seen: Seen) -> Json:
    deployment = seen.one(Owned(DEPLOYMENT))
    return dict(deployment.spec.get("template", {}).get("spec", {})) if deployment else {}


def _token_of(pod: Json) -> ConfigRef | None:
    """Return where the containers of a pod spec find their bot token; None: they have none."""
    env = (entry for container in pod.get("containers", ()) for entry in container.get("env", ()))
    return next(env_refs(entry for entry in env if entry.get("name") == BOT_TOKEN), None)
