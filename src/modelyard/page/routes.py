"""The HTTP surface of the page: its files, the stream of changes, objects, logs, questions, edits. `server` serves it.

Every error is `{"error": MESSAGE}`, but for addresses that a person opens, which show a page of its own.
"""

from __future__ import annotations

import asyncio
import html
from contextlib import aclosing
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from modelyard import __version__
from modelyard.cluster.conversation import Ways
from modelyard.cluster.failures import told
from modelyard.core.errors import ModelyardError
from modelyard.core.resources import Key
from modelyard.core.text import log_line
from modelyard.core.times import timestamp
from modelyard.kube.errors import KubeError
from modelyard.page.access import SAFE, Refused, Session, Sessions
from modelyard.page.ask import Part, Question, answer, describe
from modelyard.page.cold_start import cold_start
from modelyard.page.edit import Edit, carry_out
from modelyard.page.lookup import look_up

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

    from modelyard.core.objects import Stored
    from modelyard.page.access import Origins
    from modelyard.page.login import Login
    from modelyard.page.yard import Yard

MOST_BODY: Final = 2**20
_HEARTBEAT_SECONDS: Final = 15.0
"""Between two signs of life on a silent stream: without them, a browser that has gone is noticed at the next change."""
_LOG_LINES: Final = 500
_LOG_SILENCE: Final = 3600.0
_MOST_STARTS: Final = 500
_COOKIE_SECONDS: Final = 7 * 86400
_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HEADERS: Final = {
    # Nothing from elsewhere, no code but ours, and no text that becomes markup.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: a browser would call the origin of the form that signs in "null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ASSETS: Final = {
    file.name: file.read_bytes() for file in (resources.files("modelyard.page") / "static").iterdir() if file.is_file()
}
"""The files of the page. They are small, and a path that is not in here leads nowhere."""
_FOR_PEOPLE: Final = frozenset({"/", "/login"})
"""What browsers open as a page. There, an error is not JSON."""
_ABSENT: Final = "It does not exist (any more)."
_UNSEEN: Final = "Whether it exists cannot be seen; the top of the page says why."
_NOTE: Final = b"<!-- note -->"
"""Where a page without a session says why."""
_SESSION: Final = web.RequestKey("session", Session)
_COOKIE: Final = web.RequestKey("cookie", str)

_S = TypeVar("_S")


class Told(Struct, frozen=True, rename="camel"):
    """What the browser is told before anything else."""

    user: str
    """As whom it sees the cluster; empty: as the one who started the page."""
    cluster: str
    namespace: str
    """The only namespace that is shown; empty: all of them."""
    may_edit: bool
    can_leave: bool
    version: str


class Surface(Struct, frozen=True):
    """How the page is served."""

    cookie: str
    """The name of its cookie. Cookies do not tell ports apart, so it names the port."""
    cluster: str
    may_edit: bool = False
    is_secure: bool = False
    """Whether browsers reach it by HTTPS, through a proxy that ends TLS."""
    ways: Ways = Ways()
    """What leads to Services, besides the API server."""


class Routes:
    """The handlers of all paths."""

    def __init__(self, login: Login, origins: Origins, surface: Surface) -> None:
        self._login, self._origins, self._surface = login, origins, surface
        self.sessions = Sessions()

    def application(self) -> web.Application:
        """Return the application with all paths."""
        application = web.Application(middlewares=[self._guard], client_max_size=MOST_BODY)
        application.on_response_prepare.append(self._finish)
        application.add_routes(
            [
                web.get("/", self._index),
                web.get("/healthz", _health),
                web.get("/static/{name}", _static),
                web.get("/login", self._index),
                web.post("/login", self._enter),
                web.post("/api/leave", self._leave),
                web.get("/api/settings", self._settings),
                web.get("/api/stream", self._stream),
                web.get("/api/object", self._object),
                web.get("/api/starts", self._starts),
                web.get("/api/log", self._follow_log),
                web.get("/api/ask", self._ask_info),
                web.post("/api/ask", self._ask),
                web.post("/api/edit", self._edit),
            ]
        )
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            await self._check(request)
            return await handler(request)
        except Refused as refused:
            return _error(refused.status, str(refused))
        except KubeError as error:
            if request.path in _FOR_PEOPLE:
                return self._gate(f"The cluster cannot be asked: {told(error)}", HTTPStatus.BAD_GATEWAY)
            return _error(HTTPStatus.BAD_GATEWAY, told(error))
        except ModelyardError as error:
            return _error(HTTPStatus.BAD_REQUEST, str(error))
        except web.HTTPException as error:
            return _error(HTTPStatus(error.status), f"{request.method} {request.path} is not possible: {error.reason}")

    async def _check(self, request: web.Request) -> None:
        if request.path == "/healthz":
            # A kubelet asks by the address of the pod, and learns nothing.
            return
        self._origins.check(request.method, request.headers, opens=request.path == "/" and request.method in SAFE)
        if not request.path.startswith("/api/"):
            return
        session = await self._session(request)
        if session is None:
            raise Refused(HTTPStatus.UNAUTHORIZED, self._login.remedy)
        request[_SESSION] = session

    async def _session(self, request: web.Request) -> Session | None:
        """Return the session of a request; None: it has none, and shows nothing that opens one."""
        session = self.sessions.find(request.cookies.get(self._surface.cookie, ""))
        bearer = _bearer(request)
        # A proxy in front names the user with every request, and the cookie may be that of another.
        if not bearer or (session and session.bearer == bearer):
            return session
        if known := self.sessions.of_bearer(bearer):
            return known
        opened = await self._login.by_bearer(bearer)
        return await self._open(request, opened) if opened else None

    async def _open(self, request: web.Request, session: Session) -> Session:
        request[_COOKIE] = await self.sessions.open(session)
        return session

    async def _finish(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        if secret := request.get(_COOKIE):
            # As a header: the cookies of the response are written before this is called.
            secure = "; Secure" if self._surface.is_secure else ""
            rest = f"Path=/; Max-Age={_COOKIE_SECONDS}; HttpOnly; SameSite=Strict{secure}"
            response.headers.add("Set-Cookie", f"{self._surface.cookie}={secret}; {rest}")

    async def _index(self, request: web.Request) -> web.Response:
        if (token := request.query.get("token", "")) and (session := self._login.by_token(token)):
            await self._open(request, session)
            # Not a redirect: a browser that came from another site would follow it without the new cookie.
            return _file("enter.html")
        if await self._session(request):
            return _file("index.html")
        return self._gate()

    async def _enter(self, request: web.Request) -> web.Response:
        bearer = str((await request.post()).get("token", "")).strip()
        session = await self._login.by_bearer(bearer) if bearer else None
        if session is None:
            return self._gate("The cluster does not accept this token. It may be cut off or expired.")
        await self._open(request, session)
        return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/"})

    def _gate(self, note: str = "", status: HTTPStatus = HTTPStatus.UNAUTHORIZED) -> web.Response:
        """Return the page of a browser without a session, with a note of why it has none."""
        response = _file(self._login.page, status)
        said = f'<p class="error" role="alert">{html.escape(note)}</p>' if note else ""
        response.body = _ASSETS[self._login.page].replace(_NOTE, said.encode())
        return response

    async def _leave(self, request: web.Request) -> web.Response:
        await self.sessions.end(request.cookies.get(self._surface.cookie, ""))
        return _json({})

    async def _settings(self, request: web.Request) -> web.Response:
        session, surface = request[_SESSION], self._surface
        shown = Told(
            user=session.user,
            cluster=surface.cluster,
            namespace=session.yard.namespace,
            may_edit=surface.may_edit,
            can_leave=bool(session.bearer),
            version=__version__,
        )
        return _json(shown)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        session = request[_SESSION]
        yard = session.yard
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        browser = yard.browser()
        try:
            await response.write(_event(browser.everything()))
            while not session.is_over:
                self.sessions.touch(session)
                try:
                    async with asyncio.timeout(_HEARTBEAT_SECONDS):
                        update = await browser.news()
                except TimeoutError:
                    await response.write(b":\n\n")
                else:
                    await response.write(_event(update))
        finally:
            yard.leave(browser)
        return response

    async def _object(self, request: web.Request) -> web.Response:
        key = request.query.get("id", "")
        yard, surface = request[_SESSION].yard, self._surface
        found = await look_up(yard, key, may_edit=surface.may_edit, flags=surface.ways.flags)
        # Not 404: objects are deleted while they are looked at, and browsers take that for an error of the page.
        return _json(found or {"error": _ABSENT if yard.sees(key) else _UNSEEN})

    async def _starts(self, request: web.Request) -> web.Response:
        yard = request[_SESSION].yard
        newest = sorted(yard.pods.values(), key=lambda pod: pod.meta.creation_timestamp or "", reverse=True)
        now = yard.now()
        return _json([cold_start(pod, now, yard.loads.of(pod.meta.uid)) for pod in newest[:_MOST_STARTS]])

    async def _follow_log(self, request: web.Request) -> web.StreamResponse:
        yard, query = request[_SESSION].yard, request.query
        pod = yard.pods.get(Key(query.get("namespace", ""), query.get("pod", "")))
        if pod is None:
            # As text, as all that is wrong with a log: pods are deleted while they are looked at.
            return web.Response(text="there is no such pod of an object of Modelyard\n")
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        await response.prepare(request)
        try:
            async with yard.client.follow_log(
                *pod.meta.key, query.get("container", ""), _LOG_LINES, idle=_LOG_SILENCE
            ) as log:
                async for line in log:
                    await response.write(f"{log_line(line)}\n".encode())
        except KubeError as error:
            # As text: a container that has not started yet is no error of the page.
            await response.write(f"{told(error)}\n".encode())
        return response

    async def _ask_info(self, request: web.Request) -> web.Response:
        yard = request[_SESSION].yard
        item = _object_of(yard, request.query.get("id", ""))
        return _json(await describe(yard.client, item, self._surface.ways))

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        yard, question = request[_SESSION].yard, await _body(request, Question)
        item = _object_of(yard, question.id)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        async with aclosing(answer(yard.client, item, question, self._surface.ways)) as parts:
            async for part in parts:
                if not response.prepared:
                    # Not earlier: until then, an error has a status of its own.
                    await response.prepare(request)
                await response.write(_line(part))
        return response

    async def _edit(self, request: web.Request) -> web.Response:
        if not self._surface.may_edit:
            raise Refused(HTTPStatus.FORBIDDEN, "this page only shows; start it with --edit to change things from it")
        yard, edit = request[_SESSION].yard, await _body(request, Edit)
        await carry_out(yard.client, _object_of(yard, edit.id), edit, timestamp(yard.now()))
        return _json({})


async def _health(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    # Only what is in the folder: a name with a slash is another path, and hidden files are not ours to give.
    if name not in _ASSETS:
        raise web.HTTPNotFound
    return _file(name)


def _file(name: str, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    content_type = _TYPES[name.rpartition(".")[2]]
    return web.Response(body=_ASSETS[name], status=status, content_type=content_type, charset="utf-8")


def _bearer(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _object_of(yard: Yard, key: str) -> Stored:
    if key not in yard.objects:
        raise _no_object(key)
    return yard.objects[key]


def _no_object(key: str) -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, f"there is no object {key[:256]}")


async def _body(request: web.Request, kind: type[_S]) -> _S:
    # A form of another site cannot send this type without asking first.
    if request.content_type != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.MsgspecError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body cannot be read: {error}") from error


def _event(update: Struct) -> bytes:
    return b"data: " + msgspec.json.encode(update) + b"\n\n"


def _line(part: Part) -> bytes:
    return msgspec.json.encode(part) + b"\n"


def _error(status: HTTPStatus, message: str) -> web.Response:
    return _json({"error": message}, status)


def _json(body: Any, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")
