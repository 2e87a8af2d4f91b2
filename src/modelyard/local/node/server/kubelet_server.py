"""The HTTPS server of the kubelet: the API server calls it for `kubectl logs`, `exec` and `port-forward`.

`up.machine` runs it beside the node. It listens on loopback, and serves only clients that hold the certificate of the
API server.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from aiohttp import web

from modelyard.core.resources import Key
from modelyard.local.command_lines import NODE_CALLER
from modelyard.local.node.process.container_record import read_record
from modelyard.local.node.server.exec_session import execute
from modelyard.local.node.server.https import serving_https
from modelyard.local.node.server.log_times import LogTimes
from modelyard.local.node.server.logs import PodLogOptions, read_log
from modelyard.local.node.server.port_forward import forward_ports
from modelyard.local.node.storage.pod_folders import PodFolder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from aiohttp.typedefs import Handler

    from modelyard.local.command_lines import Trust
    from modelyard.local.node.pods.probes import ContainerAccess
    from modelyard.local.node.proxy.addresses import PodAddress

_CONTAINER: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


class Containers(Protocol):
    """What the server asks about the pods of the node; `PodWorkers` answers."""

    def uid(self, pod: Key) -> str | None:
        """Return the UID of a pod of this node; None: it runs none of this name."""

    def is_running(self, uid: str, container: str) -> bool:
        """Whether a container runs now, so that its log may still grow."""

    def access(self, uid: str, container: str) -> ContainerAccess | None:
        """Return how `exec` reaches a container; None: it does not run."""

    def address(self, pod: Key) -> PodAddress | None:
        """Return where the processes of a pod listen; None: the node runs no such pod."""


class KubeletServer:
    """Serves the logs in the state folder, commands in running containers, and connections to pods."""

    def __init__(self, state: Path, containers: Containers, trust: Trust) -> None:
        self._state, self._containers, self._trust = state, containers, trust
        self._times = LogTimes(state)

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[int]:
        """Serve while the block lasts; yields the port, which the status of the Node has to name."""
        noting = asyncio.create_task(self._times.run())
        try:
            async with serving_https(self._application(), self._trust, port) as taken:
                yield taken
        finally:
            noting.cancel()
            await asyncio.gather(noting, return_exceptions=True)

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[_for_the_api_server])
        application.router.add_get("/healthz", _health)
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        application.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        application.router.add_post("/exec/{namespace}/{pod}/{container}", self._exec)
        application.router.add_get("/portForward/{namespace}/{pod}", self._port_forward)
        application.router.add_post("/portForward/{namespace}/{pod}", self._port_forward)
        application.router.add_route("*", "/attach/{rest:.*}", _refuse)
        return application

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        options = _options(request.query)
        uid, container = self._find(request.match_info)
        log = self._log(request, uid, container)
        if not log.exists():
            raise web.HTTPBadRequest(text=_missing(request))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})

        def goes_on() -> bool:
            return self._containers.is_running(uid, container) and request.transport is not None

        # The client may close the connection at any time; that is how `kubectl logs -f` ends.
        with suppress(ConnectionError):
            await response.prepare(request)
            async for piece in read_log(log, options, self._times, goes_on):
                await response.write(piece)
        return response

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        uid, container = self._find(request.match_info)
        access = self._containers.access(uid, container)
        if access is None:
            raise web.HTTPBadRequest(text=f'container "{container}" does not run; `kubectl describe pod` says why')
        _check_websocket(request)
        return await execute(request, access)

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info
        address = self._containers.address(Key(path["namespace"], path["pod"]))
        if address is None:
            raise _unknown(path["pod"])
        _check_websocket(request)
        return await forward_ports(request, address)

    def _find(self, path: Mapping[str, str]) -> tuple[str, str]:
        uid = self._containers.uid(Key(path["namespace"], path["pod"]))
        if uid is None or not _CONTAINER.fullmatch(path["container"]):
            raise _unknown(path["pod"])
        return uid, path["container"]

    def _log(self, request: web.Request, uid: str, container: str) -> Path:
        folder = PodFolder(self._state, uid).container(container)
        if not _is_true(request.query, "previous") or read_record(folder.record).is_between_runs:
            return folder.log
        return folder.previous_log


async def _health(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _refuse(_: web.Request) -> web.Response:
    return web.Response(status=501, text="attach is not possible on one machine; use `kubectl logs -f` instead")


def _unknown(pod: str) -> web.HTTPException:
    # Not 404: the API server would replace the text by one of its own.
    return web.HTTPBadRequest(text=f'the node does not run pod "{pod}" yet; try again in a moment')


def _check_websocket(request: web.Request) -> None:
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise web.HTTPBadRequest(text="this kubectl is too old for one machine; use the one of Modelyard, or 1.31")


@web.middleware
async def _for_the_api_server(request: web.Request, handler: Handler) -> web.StreamResponse:
    # The certificate authority alone is not enough: it has signed one for every user of the cluster.
    shown = request.transport.get_extra_info("peercert") if request.transport else None
    names = {pair for group in (shown or {}).get("subject", ()) for pair in group}
    if ("commonName", NODE_CALLER) not in names:
        raise web.HTTPForbidden(text="only the API server may ask; use `kubectl logs`")
    return await handler(request)


def _missing(request: web.Request) -> str:
    path = request.match_info
    where = f'container "{path["container"]}" in pod "{path["pod"]}"'
    if _is_true(request.query, "previous"):
        return f"previous terminated {where} not found"
    return f"{where} is waiting to start"


def _options(query: Mapping[str, str]) -> PodLogOptions:
    try:
        return PodLogOptions(
            follow=_is_true(query, "follow"),
            timestamps=_is_true(query, "timestamps"),
            tail_lines=_number(query, "tailLines"),
            limit_bytes=_number(query, "limitBytes"),
            since=_since(query),
        )
    except ValueError as error:
        raise web.HTTPBadRequest(text=f"the question cannot be read: {error}") from error


def _since(query: Mapping[str, str]) -> float | None:
    if moment := query.get("sinceTime"):
        return datetime.fromisoformat(moment).timestamp()
    seconds = _number(query, "sinceSeconds")
    return None if seconds is None else time.time() - seconds


def _number(query: Mapping[str, str], name: str) -> int | None:
    return int(query[name]) if query.get(name) else None


def _is_true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name) == "true"
