"""`modelyard ask`: find the object that a name means, put a question to it, and pass the answer on while it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.cluster.answer import Figures, NotAnswering
from modelyard.cluster.api_key import key_of
from modelyard.cluster.conversation import Chat, Message, asked, list_models, reached, target_of
from modelyard.cluster.failures import NoDefinition, NothingFound, no_definition
from modelyard.cluster.kind_names import ANSWERING, find_kind, split_target
from modelyard.cluster.session import for_each
from modelyard.core.resources import Key
from modelyard.kube.credentials import Redacted
from modelyard.kube.errors import Forbidden, NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.cluster.conversation import Way, Ways
    from modelyard.cluster.session import Session
    from modelyard.core.errors import ModelyardError
    from modelyard.core.objects import Stored
    from modelyard.core.resources import Resource

_KINDS: Final = tuple(map(find_kind, ANSWERING))
_LISTED: Final = 10


class Question(Redacted, frozen=True):
    """What to ask, and of which model; an empty model: the one that the object serves."""

    text: str
    model: str = ""
    max_tokens: int = 0
    """0: as many as the server likes."""
    key: str = ""
    """The API key to show to the server; empty: the one that the object names, if it names one."""


class Answer(Struct, frozen=True, rename="camel"):
    """What `modelyard ask -o json` prints."""

    object: str
    model: str
    answer: str
    figures: Figures
    track: str = ""
    """Which track of a canary has answered; empty: there is one track, or the server does not say."""


async def ask(session: Session, target: str, question: Question, ways: Ways, tell: Callable[[str], None]) -> Answer:
    """Put a question to an object, call `tell` with each piece of the answer, and return the whole of it."""
    item = await _find(session, target)
    title = f"{item.resource.kind} {item.meta.name}"
    try:
        place = target_of(item)
        key = question.key or await key_of(session.client, item)
        async with reached(session.transport, place, ways, key) as way:
            model = question.model or place.model or await _only_model(way)
            return await _answered(way, question, model, title, tell)
    except (NotAnswering, NotFound, Unavailable) as error:
        hint = f"modelyard explain {item.resource.kind.lower()}/{item.meta.name} -n {item.meta.namespace}"
        raise NotAnswering(f"{title} does not answer: {error}{_wanted(str(error))}; see `{hint}{ways.flags}`") from None


def _wanted(complaint: str) -> str:
    return "; it wants an API key: name one with --key-file or --key-secret" if "it says 401" in complaint else ""


async def _find(session: Session, target: str) -> Stored:
    if "/" in target:
        kind, name = split_target(target)
        if kind not in _KINDS:
            raise NotAnswering(f"a {kind.kind} answers no questions; ask one of {', '.join(ANSWERING)}")
        return await session.get(kind, Key(session.namespace, name))

    items, unread = await _called(session, target)
    if len(items) > 1:
        names = ", ".join(f"{item.resource.kind.lower()}/{target}" for item in items)
        raise NotAnswering(f"several objects are called {target}; ask one of {names}")
    if items:
        return items[0]
    if forbidden := [error for error in unread if isinstance(error, Forbidden)]:
        raise forbidden[0]
    if len(unread) == len(_KINDS):
        raise no_definition(*_KINDS)
    where = f"nothing that answers questions is called {target} in the namespace {session.namespace}"
    raise NothingFound(f"{where}; `modelyard get -A` shows what there is")


async def _called(session: Session, name: str) -> tuple[list[Stored], list[ModelyardError]]:
    """Return the objects of this name that answer questions, and why kinds could not be looked at."""
    unread: list[ModelyardError] = []

    async def found(kind: Resource) -> Stored | None:
        try:
            return await session.get(kind, Key(session.namespace, name))
        except NothingFound:
            return None
        except (NoDefinition, Forbidden) as error:
            unread.append(error)
            return None

    return [item for item in await for_each(found, _KINDS) if item], unread


async def _only_model(way: Way) -> str:
    """Return the only model that a Gateway offers; NotAnswering: it offers several, or none."""
    names = await list_models(way)
    if not names:
        raise NotAnswering("it offers no models")
    if len(names) > 1:
        some = ", ".join(names[:_LISTED]) + (" and others" if len(names) > _LISTED else "")
        raise NotAnswering(f"it offers several models, so name one with --model: {some}")
    return names[0]


async def _answered(way: Way, question: Question, model: str, title: str, tell: Callable[[str], None]) -> Answer:
    said: list[str] = []
    async with asked(way, Chat(model, (Message("user", question.text),), question.max_tokens)) as reply:
        async for piece in reply.pieces():
            said.append(piece.text)
            tell(piece.text)
    return Answer(title, reply.model or model, "".join(said), reply.figures(), reply.track)
