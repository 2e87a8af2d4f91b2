"""The HTTP surface of a daemon: `/healthz`, `/admin/models`, `/v1` and `/metrics`. `daemon` serves it.

Every error has the same body, `{"error": {"code", "message"}}`.
"""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from modelyard import __version__
from modelyard.host.access import TokenUnreadable
from modelyard.host.load_request import decode_request
from modelyard.host.proxy import not_ready
from modelyard.host.refusals import Refusal, bad_request
from modelyard.host.wire import Code, ErrorBody, HostEntry, ModelList, Problem, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler

    from modelyard.host.access import Access
    from modelyard.host.memory import MemoryLedger, Pressure
    from modelyard.host.metrics import HostMetrics
    from modelyard.host.model_worker import ModelWorker
    from modelyard.host.models import Models
    from modelyard.host.proxy import Proxy

LARGEST_BODY: Final = 64 * 2**20
"""Of a request to a model, which may hold pictures."""
_LARGEST_ADMIN_BODY: Final = 2**20
_RETRY_SECONDS: Final = 5
_CODES: Final = {404: Code.NOT_FOUND, 413: Code.TOO_LARGE}

_log = structlog.get_logger()


class Routes:
    """The handlers of all paths."""

    def __init__(
        self,
        models: Models,
        proxy: Proxy,
        access: Access,
        metrics: HostMetrics,
        ledger: MemoryLedger,
        pressure: Callable[[], Pressure],
    ) -> None:
        self._models, self._proxy, self._access, self._metrics = models, proxy, access, metrics
        self._ledger, self._pressure = ledger, pressure
        self.is_draining = False

    def application(self) -> web.Application:
        """Return the application with all paths."""
        application = web.Application(middlewares=[_errors_as_json, self._guard], client_max_size=LARGEST_BODY)
        application.add_routes(
            [
                web.get("/healthz", self._health),
                web.get("/metrics", self._scrape),
                web.get("/admin/models", self._list),
                web.post("/admin/models", self._load),
                web.delete("/admin/models", self._unload),
                web.get("/admin/models/{model:.+}", self._list),
                web.delete("/admin/models/{model:.+}", self._unload),
                web.get("/v1/models", self._served),
                web.get("/v1/models/{model:.+}", self._served_one),
                web.route("*", "/v1/{rest:.+}", self._proxy.handle),
            ]
        )
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._access.check_network(request.remote)
        if request.path == "/admin" or request.path.startswith("/admin/"):
            self._access.check_token(request.headers.get("Authorization", ""))
        return await handler(request)

    async def _health(self, _: web.Request) -> web.Response:
        if self.is_draining:
            raise _draining()
        return web.Response(text="ok\n")

    async def _scrape(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _list(self, request: web.Request) -> web.Response:
        if model := _asked_model(request):
            return _json(self._models.find(model).entry())
        host = HostEntry(self._ledger.budget, self._ledger.free, __version__, self._pressure())
        return _json(ModelList(tuple(worker.entry() for worker in self._models), host))

    async def _load(self, request: web.Request) -> web.Response:
        if self.is_draining:
            raise _draining()
        body = await request.read()
        if len(body) > _LARGEST_ADMIN_BODY:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, Code.TOO_LARGE, "the body is larger than 1 MiB")
        worker = self._models.load(decode_request(body))
        return _json(worker.entry(), HTTPStatus.OK if worker.state is State.READY else HTTPStatus.ACCEPTED)

    async def _unload(self, request: web.Request) -> web.Response:
        model = _asked_model(request)
        if not model:
            raise bad_request("name the model: DELETE /admin/models/ID, with its slashes as %2F, or ?model=ID")
        return _json(self._models.unload(model).entry(), HTTPStatus.ACCEPTED)

    async def _served(self, _: web.Request) -> web.Response:
        ready = [worker for worker in self._models if worker.state is State.READY]
        return _json({"object": "list", "data": [_as_openai(worker) for worker in ready]})

    async def _served_one(self, request: web.Request) -> web.Response:
        worker = self._models.called(_asked_model(request))
        if worker.state is not State.READY:
            raise not_ready(worker)
        return _json(_as_openai(worker))


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as refusal:
        retry = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
        return _error(refusal.status, refusal.problem, retry)
    except TokenUnreadable as unreadable:
        _log.error("no admin request can be allowed", error=str(unreadable))
        return _error(HTTPStatus.UNAUTHORIZED, Problem(Code.UNAUTHORIZED, "the daemon cannot read its token file"))
    except web.HTTPException as error:
        message = f"{request.method} {request.path} is not possible: {error.reason}"
        return _error(HTTPStatus(error.status), Problem(_CODES.get(error.status, Code.BAD_REQUEST), message))
    except Exception:
        _log.exception("a request met a bug", path=request.path)
        problem = Problem(Code.INTERNAL, "the log of the daemon says more")
        return _error(HTTPStatus.INTERNAL_SERVER_ERROR, problem)


def _as_openai(worker: ModelWorker) -> dict[str, Any]:
    created = int(datetime.fromisoformat(worker.loaded_at).timestamp())
    return {"id": worker.id, "object": "model", "created": created, "owned_by": "modelyard"}


def _asked_model(request: web.Request) -> str:
    """Return the id that a path or a query names; empty: neither does."""
    return request.match_info.get("model", "") or request.query.get("model", "")


def _draining() -> Refusal:
    message = "the daemon is about to end; ask again when it is back"
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, Code.DRAINING, message, _RETRY_SECONDS)


def _error(status: HTTPStatus, problem: Problem, headers: dict[str, str] | None = None) -> web.Response:
    return _json(ErrorBody(problem), status, headers)


def _json(body: Any, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json", headers=headers)
