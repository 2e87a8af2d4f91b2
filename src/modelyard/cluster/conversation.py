"""A conversation with a model of the cluster, with the rights of the user: the way to it, its models, its answers.

`modelyard ask` and the page use it. The proxy of the API server (`services/proxy`) reaches every Service of a cluster,
so nothing has to be forwarded or exposed, unless the server wants an API key, which that proxy keeps to itself. The API
server of one machine does not reach pods; there, Services listen on loopback, and are asked there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.cluster.answer import Meter, NotAnswering, complaint
from modelyard.cluster.forwarding import forwarded
from modelyard.cluster.session import Place
from modelyard.cluster.target import find_target
from modelyard.core.resources import Key
from modelyard.kinds.shared.envoy_router import TRACK_HEADER
from modelyard.kube.connection import Connection
from modelyard.kube.credentials import Identity, StaticCredentials
from modelyard.kube.errors import Unavailable, from_answer
from modelyard.kube.transport import HttpTransport, Transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from modelyard.cluster.answer import Figures, Piece
    from modelyard.cluster.target import Target
    from modelyard.core.errors import ModelyardError
    from modelyard.core.objects import Stored
    from modelyard.kube.transport import Stream

LocalServices = Callable[[Key, int], str]
"""Returns where a port of a Service listens on this machine, such as `127.96.0.7:8080`; empty: nowhere."""

_SILENCE_SECONDS: Final = 300.0
"""A model that is being loaded may take minutes for its first word."""


def not_here(_service: Key, _port: int) -> str:
    """Return nothing: all Services are those of a cluster."""
    return ""


class Ways(Struct, frozen=True):
    """What else than the proxy of the API server may lead to a Service."""

    local: LocalServices = not_here
    place: Place | None = None
    """The cluster, for a port that kubectl forwards; None: no kubectl here has the rights of the user."""

    @property
    def flags(self) -> str:
        """What commands of the user for this cluster end with; empty: it is not known from where they are run."""
        return self.place.flags if self.place else ""


class Message(Struct, frozen=True):
    """One message of a conversation."""

    role: str
    content: str


class Chat(Struct, frozen=True):
    """A conversation that a model is to continue."""

    model: str
    messages: tuple[Message, ...]
    max_tokens: int = 0
    """0: as many as the server likes."""

    @property
    def body(self) -> bytes:
        """The request of OpenAI's API for it."""
        return msgspec.json.encode(
            {
                "model": self.model,
                "messages": self.messages,
                "stream": True,
                "stream_options": {"include_usage": True},
                **({"max_tokens": self.max_tokens} if self.max_tokens else {}),
            }
        )


class Way(Struct, frozen=True):
    """The way to a server that speaks OpenAI's API."""

    transport: Transport
    path: str
    """The path of the API, such as `/v1`, or a longer one through the API server."""
    origin: str = ""
    """Its origin on this machine; empty: it is reached through the API server."""


class Reply:
    """The answer to one question, while it comes."""

    def __init__(self, stream: Stream, began: float) -> None:
        self.track = str(stream.headers.get(TRACK_HEADER, ""))
        """Which track of a canary answers; empty: the server does not say."""
        self._lines, self._began, self._meter = stream.lines, began, Meter()

    async def pieces(self) -> AsyncIterator[Piece]:
        """Yield what comes, until the end. NotAnswering: the model broke off."""
        async for line in self._lines:
            if piece := self._meter.add(line, time.perf_counter() - self._began):
                yield piece

    @property
    def model(self) -> str:
        """The name by which the server calls its model; empty: it does not say."""
        return self._meter.model

    def figures(self) -> Figures:
        """Return how fast the answer came; NotAnswering: it has no word."""
        return self._meter.figures()


def target_of(item: Stored) -> Target:
    """Return where an object answers; NotAnswering: nowhere."""
    target = find_target(item)
    if target is None:
        raise NotAnswering(f"{item.resource.kind} {item.meta.name} has no address that takes questions")
    return target


@asynccontextmanager
async def reached(transport: Transport, target: Target, ways: Ways, key: str = "") -> AsyncIterator[Way]:
    """Yield the way to a Service, with an API key to show there; empty: none.

    NotAnswering: nothing leads there, or the connection to an address of this machine fails.
    """
    async with _address(target, ways, has_key=bool(key)) as address:
        if not address:
            yield Way(transport, target.proxy_path)
            return
        async with _near(target, address, key) as way:
            yield way


@asynccontextmanager
async def _address(target: Target, ways: Ways, *, has_key: bool) -> AsyncIterator[str]:
    """Yield where a Service listens on this machine; empty: the API server leads to it."""
    local = ways.local(target.service, target.port)
    if local or not has_key:
        yield local
    elif ways.place is None:
        raise NotAnswering("it wants an API key, which the API server does not pass on; ask it with `modelyard ask`")
    else:
        async with forwarded(ways.place, target.service, target.port) as address:
            yield address


@asynccontextmanager
async def _near(target: Target, address: str, key: str) -> AsyncIterator[Way]:
    origin = f"{target.scheme}://{address}"
    # Its certificate is for the names of the cluster, and the way to it does not leave this machine.
    near = HttpTransport(Connection(origin, StaticCredentials(Identity(token=key)), verify=False))
    try:
        yield Way(near, target.base, origin)
    except Unavailable as error:
        # The client takes whatever it calls for the API server.
        broken = f"the connection to {origin} broke" if error.uncertain else f"nothing answers at {origin}"
        raise NotAnswering(broken) from error
    except NotAnswering as error:
        # Some servers quote the key that they refuse.
        raise NotAnswering(str(error).replace(key, "***") if key else str(error)) from None
    finally:
        await near.close()


async def list_models(way: Way) -> tuple[str, ...]:
    """Return the models that a server offers, in the order of their names; NotAnswering: it does not say."""
    answer = await way.transport.request("GET", f"{way.path}/models")
    if answer.status != 200:
        raise _refusal(answer.status, answer.headers, answer.body, "get")
    try:
        return tuple(sorted(str(each["id"]) for each in msgspec.json.decode(answer.body, type=dict[str, Any])["data"]))
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise NotAnswering("its list of models cannot be read") from error


@asynccontextmanager
async def asked(way: Way, chat: Chat) -> AsyncIterator[Reply]:
    """Send a conversation, and yield the answer while it comes; NotAnswering: the server refuses it."""
    path, began = f"{way.path}/chat/completions", time.perf_counter()
    async with way.transport.stream(path, query={}, idle=_SILENCE_SECONDS, body=chat.body) as stream:
        if stream.status != 200:
            told = b"\n".join([line async for line in stream.lines])
            raise _refusal(stream.status, stream.headers, told, "create")
        yield Reply(stream, began)


def _refusal(status: int, headers: Mapping[str, str], body: bytes, verb: str) -> ModelyardError:
    """Return what an answer other than success means: the API server explains itself, a model only says no."""
    error = from_answer(status, headers, body, verb, "services/proxy")
    return error if error.reason else NotAnswering(complaint(status, body))
