"""Sends a question to a model, and passes its answer on while it comes, with the time of the first token.

It goes through the API server's proxy of the Service, with the rights of the user. Where Services listen on loopback,
as on one machine, it goes there: the API server of one machine does not reach pods.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.core.resources import SERVICE, Key
from modelyard.kinds.shared.envoy_router import TRACK_HEADER
from modelyard.kube.client import Client
from modelyard.kube.connection import Connection
from modelyard.kube.credentials import Identity, StaticCredentials
from modelyard.kube.errors import KubeError, Unavailable
from modelyard.kube.transport import HttpTransport
from modelyard.page.target import direct_origin, find_target, shell_address

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from modelyard.core.objects import Stored
    from modelyard.kube.transport import Stream
    from modelyard.page.target import Target

Json = dict[str, Any]

_SILENCE_SECONDS: Final = 300.0
"""How long a model may think before its first token, and between two."""
_MOST_COMPLAINT: Final = 2000
_DATA: Final = b"data:"
_END: Final = b"[DONE]"


class Message(Struct, frozen=True):
    """One message of a conversation."""

    role: str
    content: str


class Question(Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation that a model is to continue."""

    id: str
    messages: tuple[Message, ...]
    model: str = ""
    """Empty: the one that the object serves."""


class Piece(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of an answer: text, thoughts, or at its beginning and end some figures."""

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


class CannotAsk(ModelyardError):
    """The object does not answer questions; the message says why."""


class Route(Struct, frozen=True):
    """The way to a server that speaks OpenAI's API."""

    client: Client
    path: str
    origin: str = ""
    """Its origin on this machine; empty: it is reached through the API server."""

    def failure(self, error: Unavailable) -> str:
        """Return why there is no answer. The client takes whatever it calls for the API server."""
        return f"nothing answers at {self.origin}" if self.origin else str(error)


def target_of(item: Stored) -> Target:
    """Return where an object answers; CannotAsk: nowhere."""
    target = find_target(item)
    if target is None:
        raise CannotAsk(f"{item.resource.kind} {item.meta.name} has no address that takes questions")
    return target


@asynccontextmanager
async def route(client: Client, target: Target) -> AsyncIterator[Route]:
    """Yield the way to a Service."""
    service = await client.get(SERVICE, Key(target.namespace, target.service))
    origin = direct_origin(target, str(service.spec.get("clusterIP") or ""))
    if not origin:
        yield Route(client, target.proxy_path)
        return
    if target.is_tls:
        raise CannotAsk("it speaks TLS with a certificate that this page does not know; use curl with its CA")
    near = Client(HttpTransport(Connection(origin, StaticCredentials(Identity()))))
    try:
        yield Route(near, target.base, origin)
    finally:
        await near.close()


async def describe(client: Client, item: Stored) -> AskInfo:
    """Return the models of an object, and the address to ask it from a shell."""
    target = target_of(item)
    async with route(client, target) as way:
        place = shell_address(target, way.origin)
        if target.model:
            return AskInfo((target.model,), *place)
        try:
            listed = msgspec.json.decode(await way.client.raw(f"{way.path}/models"))
            return AskInfo(tuple(sorted(str(each["id"]) for each in listed["data"])), *place)
        except KubeError as error:
            problem = way.failure(error) if isinstance(error, Unavailable) else str(error)
        except (msgspec.MsgspecError, KeyError, TypeError):
            problem = "its list of models cannot be read"
    return AskInfo((), *place, problem)


async def answer(
    client: Client, item: Stored, question: Question, clock: Callable[[], float] = time.monotonic
) -> AsyncGenerator[Piece, None]:
    """Return the answer piece by piece; the last one has the figures, or the error."""
    target = target_of(item)
    body = msgspec.json.encode(
        {
            "model": question.model or target.model,
            "messages": question.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )
    async with route(client, target) as way:
        began = clock()
        try:
            async with way.client.post_stream(f"{way.path}/chat/completions", body, idle=_SILENCE_SECONDS) as stream:
                if stream.status != 200:
                    yield Piece(error=await _complaint(stream), is_last=True)
                    return
                yield Piece(track=str(stream.headers.get(TRACK_HEADER, "")))
                async for piece in _Meter(began, clock).read(stream):
                    yield piece
        except Unavailable as error:
            yield Piece(error=way.failure(error), is_last=True)


class _Meter:
    """Reads the events of one answer, and measures it."""

    def __init__(self, began: float, clock: Callable[[], float]) -> None:
        self._began, self._clock = began, clock
        self._first: float | None = None
        self._pieces = 0
        self._usage: int | None = None
        self._model = ""

    async def read(self, stream: Stream) -> AsyncIterator[Piece]:
        """Return the pieces of an answer."""
        async for line in stream.lines:
            data = line.removeprefix(_DATA).strip() if line.startswith(_DATA) else b""
            if data == _END:
                break
            with suppress(msgspec.MsgspecError, AttributeError, TypeError):
                if piece := self._taken(msgspec.json.decode(data)):
                    yield piece
        yield self._sum()

    def _taken(self, event: Json) -> Piece | None:
        """Return what one event adds; None: nothing that is shown."""
        self._model = str(event.get("model") or self._model)
        self._usage = (event.get("usage") or {}).get("completion_tokens", self._usage)
        delta = ((event.get("choices") or [{}])[0] or {}).get("delta") or {}
        text, thought = delta.get("content") or "", delta.get("reasoning_content") or ""
        if not text and not thought:
            return None
        self._pieces += 1
        if self._first is None:
            self._first = self._clock()
        return Piece(text=str(text), thought=str(thought))

    def _sum(self) -> Piece:
        if self._first is None:
            return Piece(model=self._model, error="the model ended its answer without a word", is_last=True)
        tokens, taken = self._usage or self._pieces, self._clock() - self._first
        return Piece(
            model=self._model,
            seconds_to_first=self._first - self._began,
            tokens=tokens,
            # The first token comes at the beginning of the time that is measured.
            tokens_per_second=(tokens - 1) / taken if taken > 0 and tokens > 1 else None,
            is_last=True,
        )


async def _complaint(stream: Stream) -> str:
    """Return why a server refuses a question, in its own words."""
    text = b"\n".join([line async for line in stream.lines])[:_MOST_COMPLAINT]
    with suppress(msgspec.MsgspecError, AttributeError, TypeError):
        told = msgspec.json.decode(text)
        error = told.get("error") or told.get("message") or ""
        words = error.get("message") if isinstance(error, dict) else error
        if words:
            return f"the server answers {stream.status}: {words}"
    return f"the server answers {stream.status}: {text.decode(errors='replace')}"
