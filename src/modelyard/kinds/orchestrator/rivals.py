"""Orchestrators that share a bot token. Telegram lets one program poll for a token, and answers others with 409.

The oldest one of all namespaces that the operator serves has it. Tokens are compared by hashes with a salt that only
the process knows, and a bot learns no more than that two are equal. No hash is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.core.resources import SECRET, Key
from modelyard.kinds.contract import Every, Named
from modelyard.kinds.orchestrator.api import RESOURCE, OrchestratorSpec
from modelyard.kinds.shared.config_refs import ConfigRef

if TYPE_CHECKING:
    from modelyard.core.objects import Metadata, Stored
    from modelyard.kinds.contract import Object, Seen


class Bot(Struct, frozen=True, order=True):
    """The bot of an Orchestrator: since when it is there, and where its token is. The oldest is the smallest."""

    created: str
    place: Key
    token: ConfigRef

    def secret_for(self, home: str) -> Named:
        """Return the read of the Secret that holds its token, for an Orchestrator of the namespace `home`."""
        elsewhere = self.place.namespace if self.place.namespace != home else ""
        return Named(SECRET, self.token.name, elsewhere, compared=True)

    def token_hash(self, home: str, seen: Seen) -> str:
        """Return the hash of its token, as an Orchestrator of the namespace `home` sees it; empty: it has none."""
        secret = seen.one(self.secret_for(home))
        return str(secret.part("data").get(self.token.key, "")) if secret else ""

    def name_for(self, home: str) -> str:
        """Return its name as an Orchestrator of the namespace `home` calls it."""
        return self.place.name if self.place.namespace == home else str(self.place)


def bot_of(meta: Metadata, spec: OrchestratorSpec) -> Bot | None:
    """Return the bot of an Orchestrator; None: it does not listen."""
    telegram = spec.channels.telegram
    if not telegram.enabled:
        return None
    token = telegram.token_secret_ref
    ref = ConfigRef(SECRET.kind, str(token.get("name", "")), str(token.get("key", "")))
    return Bot(meta.creation_timestamp or "", meta.key, ref)


def bot_facet(orchestrator: Stored) -> Bot | None:
    """Return the bot of a stored Orchestrator; None: it does not listen, or its spec cannot be read.

    One that is being deleted still polls until its pod is gone.
    """
    try:
        spec = msgspec.json.decode(orchestrator.parts["spec"], type=OrchestratorSpec)
    except msgspec.ValidationError:
        return None
    return bot_of(orchestrator.meta, spec)


BOTS: Final = Every(RESOURCE, bot_facet, within=1.0)
"""The read of all bots. Many that are created together wake each other once."""


def elders(own: Bot, seen: Seen) -> list[Bot]:
    """Return the bots that were there before, the oldest first."""
    return [bot for bot in sorted(seen.every(BOTS).values()) if bot < own and bot.place != own.place]


def rival(orchestrator: Object[OrchestratorSpec], seen: Seen) -> Problem | None:
    """Return the problem that an older Orchestrator has the same token; None: the token is its own."""
    own, home = bot_of(orchestrator.meta, orchestrator.spec), orchestrator.meta.namespace
    found = (elder for elder in elders(own, seen) if same_token(own, elder, home, seen)) if own else iter(())
    elder = next(found, None)
    if elder is None:
        return None
    return Problem(
        Reason.TOKEN_IN_USE,
        f"the Orchestrator {elder.name_for(home)} uses the same bot token, and Telegram lets only one of them listen",
        "give one of them the token of another bot, or delete it",
    )


def uncompared(orchestrator: Object[OrchestratorSpec], seen: Seen) -> list[str]:
    """Return the names of older Orchestrators whose token the operator may not read, sorted."""
    own, home = bot_of(orchestrator.meta, orchestrator.spec), orchestrator.meta.namespace
    older = elders(own, seen) if own else []
    return sorted(elder.name_for(home) for elder in older if elder.secret_for(home) in seen.forbidden)


def same_token(one: Bot, other: Bot, home: str, seen: Seen) -> bool:
    """Return whether two bots have one token, as an Orchestrator of the namespace `home` sees it."""
    if one.token == other.token and one.place.namespace == other.place.namespace:
        return True
    value = one.token_hash(home, seen)
    return bool(value) and value == other.token_hash(home, seen)
