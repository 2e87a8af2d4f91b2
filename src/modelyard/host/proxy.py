"""Pass requests on to the engine of the model that they name, and answers back as they come, byte for byte.

`routes` calls it for `/v1`. The counterpart on a cluster is the Envoy of a door.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from modelyard.host.engine_request import EngineConnections
from modelyard.host.refusals import Refusal, bad_request
from modelyard.host.wire import Code, State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp.abc import AbstractStreamWriter

    from modelyard.host.engine_request import EngineAnswer, Header
    from modelyard.host.liveness import Liveness
    from modelyard.host.metrics import HostMetrics
    from modelyard.host.model_worker import ModelWorker
    from modelyard.host.models import Models

_HOP_BY_HOP: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
     b"transfer-encoding", b"upgrade", b"host", b"content-length", b"expect")
)  # fmt: skip
"""What belongs to one connection only, or is written anew for the next one."""
_RETRY_SECONDS: Final = 5
_HEAD_SECONDS: Final = 0.05
"""How long the head of an answer may wait for the first bytes of its body."""


class _Relayed(web.StreamResponse):
    """An answer whose head is sent together with the first bytes of its body: one system call, one packet."""

    _send_headers_immediately = False


class _Names(Struct, frozen=True):
    model: str = ""


class Proxy:
    """The way from clients to engines."""

    def __init__(self, models: Models, metrics: HostMetrics) -> None:
        self._models, self._metrics = models, metrics
        self._engines = EngineConnections()

    def close(self) -> None:
        """Close the connections to engines that are idle."""
        self._engines.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request with what the engine of its model answers; `Refusal` when that cannot be asked."""
        began = time.monotonic()
        body = await request.read()
        name = _named_model(body)
        worker = self._models.called(name)
        if worker.state is not State.READY:
            raise not_ready(worker)
        with worker.serving_one():
            return await self._pass_on(request, _for_engine(body, name, worker.id), worker, began)

    async def _pass_on(
        self, request: web.Request, body: bytes, worker: ModelWorker, began: float
    ) -> web.StreamResponse:
        headers = _passed(request.raw_headers)
        try:
            sent = self._engines.answer(worker.port, request.method, str(request.rel_url), headers, body)
            async with sent as answer:
                seconds = time.monotonic() - began
                # After the first bytes are on their way: a client waits for them, and not for our figures.
                asyncio.get_running_loop().call_soon(self._metrics.answered, worker.id, answer.status, seconds)
                return await _relay(request, answer, worker.liveness)
        except (aiohttp.ClientError, HttpProcessingError) as error:
            raise not_ready(worker) from error


def not_ready(worker: ModelWorker) -> Refusal:
    """Return the refusal of a request to a model that is here and does not serve."""
    message = f"{worker.id} is {worker.state}; try again in a moment"
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, Code.NOT_READY, message, _RETRY_SECONDS)


async def _relay(request: web.Request, answer: EngineAnswer, liveness: Liveness) -> web.StreamResponse:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in _passed(answer.headers)]
    response = _Relayed(status=answer.status, reason=answer.reason, headers=headers)
    response.content_length = answer.length
    writer = await response.prepare(request)
    assert writer
    late = asyncio.get_running_loop().call_later(_HEAD_SECONDS, _send_head, writer)
    try:
        async for piece in answer.body.iter_any():
            liveness.heard()
            await response.write(piece)
        await response.write_eof()
    except aiohttp.ClientError:
        # The engine has ended in the middle. A proper end of the stream would tell the client that this was all.
        if request.transport is not None:
            request.transport.abort()
    finally:
        late.cancel()
    return response


def _send_head(writer: AbstractStreamWriter) -> None:
    # The client may be gone, and its request not cancelled yet.
    with suppress(ConnectionError):
        writer.send_headers()


def _for_engine(body: bytes, name: str, model: str) -> bytes:
    """Return the body with the id of the model in place of an alias: engines know only the id."""
    if name == model:
        return body
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode(fields | {"model": msgspec.Raw(msgspec.json.encode(model))})


def _passed(headers: Iterable[Header]) -> list[Header]:
    return [header for header in headers if header[0].lower() not in _HOP_BY_HOP]


def _named_model(body: bytes) -> str:
    try:
        model = msgspec.json.decode(body, type=_Names).model
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the body does not name a model: {error}") from error
    if not model:
        raise bad_request("the body names no model; set its field model to an id of GET /v1/models")
    return model
