"""The typed client: every request that Modelyard makes of the API server, one method per verb.

Called by `runtime`, `local` and `watch`. Nothing is retried here: callers decide what a failed write means. All that is
remembered is how long a busy server has asked us to wait (`throttle`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from modelyard.core.names import FIELD_MANAGER
from modelyard.core.resources import POD, Key
from modelyard.kube import codec
from modelyard.kube.errors import BadRequest, from_answer
from modelyard.kube.throttle import Throttle

if TYPE_CHECKING:
    from modelyard.core.objects import Json, Stored
    from modelyard.core.resources import Resource
    from modelyard.kube.codec import Page
    from modelyard.kube.transport import Stream, Transport

Observe = Callable[[str, str, int, float], None]
"""Called after every request with its RBAC verb, resource label, HTTP status (0: no answer) and seconds."""

PAGE: Final = 500

_LOG_BYTES: Final = 64 * 1024

_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
_AS_US: Final = {"fieldManager": FIELD_MANAGER}

_JSON: Final = "application/json"
# JSON is YAML too, and saves both sides a YAML parser's time.
_APPLY: Final = "application/apply-patch+yaml"
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"


class Client:
    """Requests to one API server with one set of credentials. Every failure is a `KubeError`."""

    def __init__(self, transport: Transport, observe: Observe | None = None, throttle: Throttle | None = None) -> None:
        self._transport = transport
        self._observe = observe
        self._throttle = throttle or Throttle()

    @property
    def transport(self) -> Transport:
        """The transport below, for what is no request to the API server itself, such as to the proxy of a Service."""
        return self._transport

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def get(self, resource: Resource, key: Key) -> Stored:
        """Return one object, as the caches keep it."""
        return codec.stored(resource, await self._ask("get", resource.label, _path(resource, key)))

    async def get_full(self, resource: Resource, key: Key, subresource: str = "") -> Json:
        """Return one object with everything in it, `managedFields` included."""
        return codec.full(await self._ask("get", _label(resource, subresource), _path(resource, key, subresource)))

    async def list_page(
        self,
        resource: Resource,
        namespace: str = "",
        selector: str = "",
        limit: int = PAGE,
        token: str = "",
        revision: str = "",
        *,
        field_selector: str = "",
    ) -> Page:
        """Return one page of a list: the first, or the one that the continue token of the page before leads to."""
        query = {"limit": str(limit), **selection(selector, field_selector)}
        query |= {"continue": token} if token else {}
        query |= {"resourceVersion": revision} if revision else {}
        return codec.page(resource, await self._ask("list", resource.label, _collection(resource, namespace), query))

    async def list_all(
        self, resource: Resource, namespace: str = "", selector: str = "", *, field_selector: str = ""
    ) -> list[Stored]:
        """Return every object of a list, page by page."""
        page = await self.list_page(resource, namespace, selector, field_selector=field_selector)
        items = page.items
        while page.token:
            page = await self.list_page(resource, namespace, selector, token=page.token, field_selector=field_selector)
            items = [*items, *page.items]
        return items

    async def create(self, resource: Resource, body: Json) -> Stored:
        """Create an object, at the namespace and name of its metadata, and return it as stored."""
        path = _collection(resource, body["metadata"].get("namespace", ""))
        return codec.stored(resource, await self._ask("create", resource.label, path, _AS_US, body))

    async def replace(self, resource: Resource, key: Key, body: Json) -> Stored:
        """Replace the object that still has the resource version of this one; Conflict: it has another by now."""
        return codec.stored(resource, await self._ask("update", resource.label, _path(resource, key), _AS_US, body))

    async def apply(
        self, resource: Resource, key: Key, body: Json, *, manager: str = FIELD_MANAGER, strict: bool = False
    ) -> Stored:
        """Make the stored fields equal to these by server-side apply, even those that another manager owns.

        If `strict`, fields that the API server does not know are refused; otherwise it leaves them out.
        """
        query = {"fieldManager": manager, "force": "true"} | ({"fieldValidation": "Strict"} if strict else {})
        path = _path(resource, key)
        return codec.stored(resource, await self._ask("patch", resource.label, path, query, body, _APPLY))

    async def merge_patch(self, resource: Resource, key: Key, patch: Json, subresource: str = "") -> Stored:
        """Change the fields that the patch holds; None removes a field."""
        label, path = _label(resource, subresource), _path(resource, key, subresource)
        return codec.stored(resource, await self._ask("patch", label, path, _AS_US, patch, _MERGE_PATCH))

    async def json_patch(
        self, resource: Resource, key: Key, operations: Sequence[Json], subresource: str = ""
    ) -> Stored:
        """Carry out operations such as `test` and `replace`: all of them, or none."""
        label, path = _label(resource, subresource), _path(resource, key, subresource)
        return codec.stored(resource, await self._ask("patch", label, path, _AS_US, operations, _JSON_PATCH))

    async def delete(self, resource: Resource, key: Key, uid: str, *, grace: int | None = None) -> None:
        """Delete exactly this object. A successor of the same name is left alone (Conflict).

        A `grace` of 0 says that what the object stands for has ended already, as a kubelet says of a pod.
        """
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
            **({} if grace is None else {"gracePeriodSeconds": grace}),
        }
        await self._ask("delete", resource.label, _path(resource, key), body=options)

    async def log_tail(self, namespace: str, pod: str, container: str, lines: int, *, previous: bool = False) -> str:
        """Return the last lines of a container's log, at most 64 KiB. BadRequest: it has not started yet.

        `previous`: of the run before the last restart.
        """
        query = {"container": container, "tailLines": str(lines), "limitBytes": str(_LOG_BYTES)}
        query |= {"previous": "true"} if previous else {}
        path = _path(POD, Key(namespace, pod), "log")
        return (await self._ask("get", _label(POD, "log"), path, query)).decode(errors="replace")

    @asynccontextmanager
    async def follow_log(
        self, namespace: str, pod: str, container: str, lines: int, *, idle: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the last lines of a container's log and those that follow. Silence for `idle` seconds breaks it.

        BadRequest: the container has not started yet.
        """
        query = {"container": container, "tailLines": str(lines), "follow": "true"}
        path = _path(POD, Key(namespace, pod), "log")
        async with self._opened("get", _label(POD, "log"), path, query, idle) as stream:
            yield stream.lines

    async def raw(self, path: str) -> bytes:
        """Return what is no object, such as `/openapi/v3`. The path is sent as it is: build it from trusted parts."""
        return await self._ask("get", "raw", path)

    @asynccontextmanager
    async def watch(
        self, resource: Resource, namespace: str, query: Mapping[str, str], *, idle: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and yield its lines. It breaks when the server is silent for `idle` seconds."""
        path = _collection(resource, namespace)
        async with self._opened("watch", resource.label, path, {"watch": "1", **query}, idle) as stream:
            yield stream.lines

    @asynccontextmanager
    async def _opened(
        self, verb: str, label: str, path: str, query: Mapping[str, str], idle: float
    ) -> AsyncIterator[Stream]:
        async with AsyncExitStack() as stack:
            with self._observed(verb, label) as answered:
                opening = self._transport.stream(path, query=query, idle=idle)
                stream = await stack.enter_async_context(opening)
                answered(stream.status)
            if stream.status != 200:
                body = b"\n".join([line async for line in stream.lines])
                raise from_answer(stream.status, stream.headers, body, verb, label)
            yield stream

    async def _ask(
        self,
        verb: str,
        label: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Json | Sequence[Json] | None = None,
        content_type: str = _JSON,
    ) -> bytes:
        self._throttle.check(verb, label)
        encoded = None if body is None else msgspec.json.encode(body)
        with self._observed(verb, label) as answered:
            response = await self._transport.request(
                _METHODS[verb], path, query=query, body=encoded, content_type=content_type
            )
            answered(response.status)
        if 200 <= response.status < 300:
            return response.body
        error = from_answer(response.status, response.headers, response.body, verb, label)
        self._throttle.record(label, error)
        raise error

    @contextmanager
    def _observed(self, verb: str, label: str) -> Iterator[Callable[[int], None]]:
        """Measure a request, whether it is answered, fails or is cancelled."""
        started, code = time.perf_counter(), 0

        def answered(status: int) -> None:
            nonlocal code
            code = status

        try:
            yield answered
        finally:
            if self._observe:
                self._observe(verb, label, code, time.perf_counter() - started)


def selection(selector: str, field_selector: str) -> dict[str, str]:
    """Return the query parameters that narrow a list or a watch."""
    wanted = {"labelSelector": selector, "fieldSelector": field_selector}
    return {name: value for name, value in wanted.items() if value}


def _label(resource: Resource, subresource: str) -> str:
    return f"{resource.label}/{subresource}" if subresource else resource.label


def _collection(resource: Resource, namespace: str) -> str:
    return resource.path(_segment("namespace", namespace) if namespace else "")


def _path(resource: Resource, key: Key, subresource: str = "") -> str:
    # With an empty part the path would be that of a whole collection, and a delete would empty it.
    namespace = _segment("namespace", key.namespace) if resource.namespaced else ""
    return resource.path(namespace, _segment("name", key.name), subresource)


def _segment(what: str, text: str) -> str:
    if text in {"", ".", ".."} or "/" in text or "%" in text:
        raise BadRequest(400, "BadName", f"{text[:64]!r} cannot be the {what} of an object")
    return quote(text, safe="")
