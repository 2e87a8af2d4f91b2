"""Orchestrators that share a bot token. Telegram lets one program poll for a token, and answers others with 409.

The oldest one has it. Tokens are compared by hashes that are salted with the UID of the reader, so the reader hashes
the Secrets of the others, too, and learns no more than that two are equal. Only one namespace can be seen like this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.core.resources import SECRET
from modelyard.kinds.contract import Every
from modelyard.kinds.orchestrator.api import RESOURCE, OrchestratorSpec
from modelyard.kinds.shared.config_refs import ConfigRef

if TYPE_CHECKING:
    from modelyard.core.objects import Metadata, Stored
    from modelyard.kinds.contract import Object, Seen


class Bot(Struct, frozen=True, order=True):
    """The bot of an Orchestrator: since when it is there, and where its token is. The oldest is the smallest."""

    created: str
    name: str
    token: ConfigRef


def bot_of(meta: Metadata, spec: OrchestratorSpec) -> Bot | None:
    """Return the bot of an Orchestrator; None: it does not listen."""
    telegram = spec.channels.telegram
    if not telegram.enabled:
        return None
    token = telegram.token_secret_ref
    ref = ConfigRef(SECRET.kind, str(token.get("name", "")), str(token.get("key", "")))
    return Bot(meta.creation_timestamp or "", meta.name, ref)


def bot_facet(orchestrator: Stored) -> Bot | None:
    """Return the bot of a stored Orchestrator; None: it does not listen, or its spec cannot be read.

    One that is being deleted still polls until its pod is gone.
    """
    try:
        spec = msgspec.json.decode(orchestrator.parts["spec"], type=OrchestratorSpec)
    except msgspec.ValidationError:
        return None
    return bot_of(orchestrator.meta, spec)


def bots(namespace: str) -> Every[Bot]:
    """Return the read of all bots of a namespace."""
    return Every(RESOURCE, bot_facet, namespace)


def elders(own: Bot, namespace: str, seen: Seen) -> list[Bot]:
    """Return the bots of the namespace that were there before, the oldest first."""
    return [bot for bot in sorted(seen.every(bots(namespace)).values()) if bot < own and bot.name != own.name]


def rival(orchestrator: Object[OrchestratorSpec], seen: Seen) -> Problem | None:
    """Return the problem that an older Orchestrator has the same token; None: the token is its own."""
    own, namespace = bot_of(orchestrator.meta, orchestrator.spec), orchestrator.meta.namespace
    found = (elder for elder in elders(own, namespace, seen) if _same_token(own, elder, seen)) if own else iter(())
    elder = next(found, None)
    if elder is None:
        return None
    return Problem(
        Reason.TOKEN_IN_USE,
        f"the Orchestrator {elder.name} uses the same bot token, and Telegram lets only one of them listen",
        "give one of them the token of another bot, or delete it",
    )


def _same_token(one: Bot, other: Bot, seen: Seen) -> bool:
    if one.token == other.token:
        return True
    value = one.token.value(seen)
    return bool(value) and value == other.token.value(seen)
