"""`modelyard ask`: put a question to a model through the API server, with the rights of the user.

The proxy of the API server (`services/proxy`) reaches every Service of a cluster, so nothing has to be forwarded or
exposed. On one machine the API server cannot reach pods; there the address on loopback is asked.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.cluster.answer import Address, Answer, Meter, NotAnswering, address_of
from modelyard.cluster.failures import NoDefinition, NothingFound
from modelyard.cluster.kind_names import split_target
from modelyard.cluster.next_steps import ANSWERING
from modelyard.cluster.session import for_each
from modelyard.core.resources import Key
from modelyard.core.text import clean
from modelyard.kinds import ALL
from modelyard.kube.connection import Connection
from modelyard.kube.credentials import Identity, StaticCredentials
from modelyard.kube.errors import NotFound, Unavailable, from_answer
from modelyard.kube.transport import HttpTransport, Transport
from modelyard.local.up.state_folder import StateFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from modelyard.cluster.session import Session
    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Kind
    from modelyard.kube.transport import Stream

_KINDS: Final = tuple(kind for kind in ALL if kind.resource.kind in ANSWERING)
_SILENCE_SECONDS: Final = 300.0
"""A model that is being loaded may take minutes for its first word."""
_LISTED: Final = 10
_LONGEST: Final = 512


class Question(Struct, frozen=True):
    """What to ask, and of which model; an empty model: the only one, or the first."""

    text: str
    model: str = ""
    max_tokens: int = 0
    """0: as many as the server likes."""


class Way(Struct, frozen=True):
    """How a Service is reached: a transport, and the path below which it is."""

    transport: Transport
    prefix: str = ""


async def ask(
    session: Session, target: str, question: Question, one_machine: Path | None, tell: Callable[[str], None]
) -> Answer:
    """Put a question to an object, call `tell` with each piece of the answer, and return the whole of it.

    `one_machine` is the folder of the `modelyard up` that the kubeconfig belongs to; None: it belongs to a cluster.
    """
    item = await _find(session, target)
    title = f"{item.resource.kind} {item.meta.name}"
    address = address_of(_url(item))
    way = _way(session, address, one_machine)
    try:
        model = question.model or await _model(way, address, item)
        return await _asked(way, address, question, model, title, tell)
    except (NotAnswering, NotFound, Unavailable) as error:
        hint = f"`modelyard explain {item.resource.kind.lower()}/{item.meta.name} -n {item.meta.namespace}`"
        raise NotAnswering(f"{title} does not answer: {error}; see {hint}") from error
    finally:
        if way.transport is not session.transport:
            await way.transport.close()


async def _find(session: Session, target: str) -> Stored:
    if "/" in target:
        kind, name = split_target(target)
        if kind not in _KINDS:
            raise NotAnswering(f"a {kind.resource.kind} answers no questions; ask one of {', '.join(ANSWERING)}")
        return await session.get(kind.resource, Key(session.namespace, name))

    async def found(kind: Kind) -> Stored | None:
        try:
            return await session.get(kind.resource, Key(session.namespace, target))
        except (NothingFound, NoDefinition):
            return None

    items = [item for item in await for_each(found, _KINDS) if item]
    if not items:
        where = f"nothing that answers questions is called {target} in the namespace {session.namespace}"
        raise NothingFound(f"{where}; `modelyard get -A` shows what there is")
    if len(items) > 1:
        names = ", ".join(f"{item.resource.kind.lower()}/{target}" for item in items)
        raise NotAnswering(f"several objects are called {target}; ask one of {names}")
    return items[0]


def _url(item: Stored) -> str:
    status = item.status
    return str(status.get("serviceUrl") or status.get("endpoint") or status.get("url") or "")


def _way(session: Session, address: Address, one_machine: Path | None) -> Way:
    ports = StateFolder(one_machine).service_addresses().get(address.service, {}) if one_machine else {}
    if local := ports.get(address.port):
        connection = Connection(f"{address.scheme}://{local}", StaticCredentials(Identity()), verify=False)
        return Way(HttpTransport(connection))
    return Way(session.transport, address.proxied)


async def _model(way: Way, address: Address, item: Stored) -> str:
    """Return the model to ask for: the only one that is listed. Of several, a gateway does not choose."""
    answer = await way.transport.request("GET", f"{way.prefix}{address.models}")
    if answer.status != 200:
        _check(answer.status, answer.headers, answer.body, "get")
    names = _listed(answer.body)
    if len(names) > 1 and item.resource.kind == "Gateway":
        some = ", ".join(names[:_LISTED]) + (" and others" if len(names) > _LISTED else "")
        raise NotAnswering(f"it offers several models, so name one with --model: {some}")
    return names[0] if names else item.meta.name


def _listed(body: bytes) -> list[str]:
    try:
        entries = msgspec.json.decode(body, type=dict[str, Any]).get("data") or ()
        return [str(entry["id"]) for entry in entries]
    except (msgspec.MsgspecError, KeyError, TypeError):
        return []


async def _asked(
    way: Way, address: Address, question: Question, model: str, title: str, tell: Callable[[str], None]
) -> Answer:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question.text}],
        "stream": True,
        "stream_options": {"include_usage": True},
        **({"max_tokens": question.max_tokens} if question.max_tokens else {}),
    }
    meter, began = Meter(), time.perf_counter()
    opening = way.transport.stream(
        f"{way.prefix}{address.path}", query={}, idle=_SILENCE_SECONDS, body=msgspec.json.encode(body)
    )
    async with opening as stream:
        await _expect_success(stream)
        async for line in stream.lines:
            if piece := meter.add(line, time.perf_counter() - began):
                tell(piece)
    return Answer(title, model, meter.text, meter.figures())


async def _expect_success(stream: Stream) -> None:
    if stream.status != 200:
        body = b"\n".join([line async for line in stream.lines])
        _check(stream.status, stream.headers, body, "create")


def _check(status: int, headers: Any, body: bytes, verb: str) -> None:
    """Raise what an answer other than success means: the API server explains itself, a model only says no."""
    error = from_answer(status, headers, body, verb, "services/proxy")
    if error.reason:
        raise error
    raise NotAnswering(f"it says {status}: {clean(body.decode(errors='replace'), _LONGEST)}")
