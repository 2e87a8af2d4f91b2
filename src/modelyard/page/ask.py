"""Questions of a browser to an object, and the answer piece by piece, with the rights of the user.

`routes` calls it; the conversation itself is that of `modelyard ask`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.cluster.answer import NotAnswering
from modelyard.cluster.api_key import key_command, key_of
from modelyard.cluster.conversation import Chat, Message, asked, list_models, reached, target_of
from modelyard.cluster.failures import NoRights, told
from modelyard.cluster.target import shell_address
from modelyard.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from modelyard.cluster.conversation import Reply, Ways
    from modelyard.core.objects import Stored
    from modelyard.kube.client import Client


class Question(Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation that a model is to continue."""

    id: str
    messages: tuple[Message, ...]
    model: str = ""
    """Empty: the one that the object serves."""


class Part(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of an answer as the browser gets it: text, thoughts, or at its beginning and end some figures."""

    text: str = ""
    thought: str = ""
    model: str = ""
    track: str = ""
    """Which track of a canary answers; empty: the server does not say."""
    seconds_to_first: float | None = None
    tokens: int | None = None
    tokens_per_second: float | None = None
    error: str = ""
    is_last: bool = False


class AskInfo(Struct, frozen=True, rename="camel"):
    """What can be asked of an object, and the address to do the same from a shell."""

    models: tuple[str, ...]
    url: str
    """The base URL of OpenAI's API."""
    forward: str
    """The command that has to run for it; empty: none has to."""
    problem: str = ""
    """Why its models are not known; empty: they are."""
    set_key: str = ""
    """The line that puts its API key into the variable API_KEY; empty: its spec names none."""


async def describe(client: Client, item: Stored, ways: Ways) -> AskInfo:
    """Return the models of an object, and the address to ask it from a shell; NotAnswering: it has none."""
    target, set_key = target_of(item), key_command(item, ways.flags)
    place = shell_address(target, "", ways.flags)
    try:
        async with reached(client.transport, target, ways) as way:
            place = shell_address(target, way.origin, ways.flags)
            models = (target.model,) if target.model else await list_models(way)
            return AskInfo(models, *place, set_key=set_key)
    except (NotAnswering, KubeError) as error:
        return AskInfo((), *place, told(error), set_key)


async def answer(client: Client, item: Stored, question: Question, ways: Ways) -> AsyncGenerator[Part, None]:
    """Yield the answer piece by piece; the last one has the figures, or the error."""
    target = target_of(item)
    try:
        key = await key_of(client, item)
        async with (
            reached(client.transport, target, ways, key) as way,
            asked(way, Chat(question.model or target.model, question.messages)) as reply,
        ):
            yield Part(track=reply.track)
            async for piece in reply.pieces():
                yield Part(text=piece.text, thought=piece.thought)
        yield _sum(reply)
    except (NotAnswering, NoRights, KubeError) as error:
        yield Part(error=f"{told(error)}{_wanted(item, told(error))}", is_last=True)


def _wanted(item: Stored, complaint: str) -> str:
    if "it says 401" not in complaint or key_command(item):
        return ""
    return "; it wants an API key that its spec does not name: ask it with `modelyard ask --key-secret`"


def _sum(reply: Reply) -> Part:
    told = reply.figures()
    return Part(
        model=reply.model,
        seconds_to_first=told.first_token_seconds,
        tokens=told.tokens,
        tokens_per_second=told.tokens_per_second or None,
        is_last=True,
    )
