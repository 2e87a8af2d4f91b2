"""Pass requests on to the engine of the model that they name, and answers back as they come, byte for byte.

`routes` calls it for `/v1`. The counterpart on a cluster is the Envoy of a door.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec
from aiohttp import web
from msgspec import Struct

from modelyard.host.engines import HOST
from modelyard.host.refusals import Refusal, bad_request
from modelyard.host.wire import Code, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.host.metrics import HostMetrics
    from modelyard.host.model_worker import ModelWorker
    from modelyard.host.models import Models

_HOP_BY_HOP: Final = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
     "upgrade", "host", "content-length", "expect")
)  # fmt: skip
"""What belongs to one connection only, or is written anew for the next one."""
_PATIENCE: Final = aiohttp.ClientTimeout(total=None, sock_connect=5.0)
_RETRY_SECONDS: Final = 5
_LARGE: Final = 2**20


class _Names(Struct, frozen=True):
    model: str = ""


class Proxy:
    """The way from clients to engines."""

    def __init__(self, models: Models, metrics: HostMetrics) -> None:
        self._models, self._metrics = models, metrics
        # No connection is used twice. llama.cpp gives each one a thread, and has few: idle ones would hold up requests
        # that wait. And an engine may close an idle one as the next request is sent, which cannot be repeated safely.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False, timeout=_PATIENCE)

    async def close(self) -> None:
        """Close the connections to engines."""
        await self._session.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request with what the engine of its model answers; `Refusal` when that cannot be asked."""
        began = time.monotonic()
        body = await request.read()
        worker = self._worker(_named_model(body))
        with worker.serving_one():
            return await self._pass_on(request, body, worker, began)

    def _worker(self, model: str) -> ModelWorker:
        try:
            worker = self._models.find(model)
        except Refusal as refusal:
            message = f"{model} is not on this host; GET /v1/models lists what is"
            raise Refusal(HTTPStatus.NOT_FOUND, Code.MODEL_NOT_FOUND, message) from refusal
        if worker.state is not State.READY:
            raise _not_ready(worker)
        return worker

    async def _pass_on(
        self, request: web.Request, body: bytes, worker: ModelWorker, began: float
    ) -> web.StreamResponse:
        url = f"http://{HOST}:{worker.port}{request.rel_url}"
        try:
            async with self._session.request(
                request.method, url, data=_payload(body), headers=_passed(request.headers), allow_redirects=False
            ) as answer:
                self._metrics.answered(worker.id, answer.status, time.monotonic() - began)
                return await _relay(request, answer)
        except aiohttp.ClientError as error:
            raise _not_ready(worker) from error


async def _relay(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=_passed(answer.headers))
    response.content_length = answer.content_length
    await response.prepare(request)
    try:
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
    except aiohttp.ClientError:
        # The engine has ended in the middle. A proper end of the stream would tell the client that this was all.
        if request.transport is not None:
            request.transport.abort()
    return response


def _payload(body: bytes) -> bytes | BytesIO:
    # A large one as a file, which is sent piece by piece: it must not hold up the streams of others.
    return body if len(body) <= _LARGE else BytesIO(body)


def _passed(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP]


def _named_model(body: bytes) -> str:
    try:
        model = msgspec.json.decode(body, type=_Names).model
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise bad_request(f"the body does not name a model: {error}") from error
    if not model:
        raise bad_request("the body names no model; set its field model to an id of GET /v1/models")
    return model


def _not_ready(worker: ModelWorker) -> Refusal:
    message = f"{worker.id} is {worker.state}; try again in a moment"
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, Code.NOT_READY, message, _RETRY_SECONDS)
