"""Server-side apply of any kind of object that the API server knows, as `kubectl` would do it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.core.resources import Resource
from modelyard.kube.errors import KubeError, NotFound, TooManyRequests, Unavailable, from_answer
from modelyard.local.up.documents import BadManifest, Document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelyard.core.stored import Json
    from modelyard.kube.transport import Transport

# By the name that kubectl uses, so that a later `kubectl apply --server-side` of the same file meets no conflict.
MANAGER: Final = "kubectl"
_CONTENT: Final = "application/apply-patch+yaml"
_NAMESPACE: Final = "default"
_PATIENCE: Final = 30.0
_WAIT: Final = 0.2
_WRONG_FIELD: Final = 500
_PASSING: Final = (TooManyRequests, Unavailable)


class _Kind(Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool


class _Kinds(Struct, frozen=True):
    resources: tuple[_Kind, ...] = ()


class Applier:
    """Applies objects to one API server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: dict[str, _Kinds] = {}

    async def apply_all(self, documents: Sequence[Document]) -> None:
        """Apply these objects in their order; nothing when the kind of one of them is not known."""
        found = [(document, await self._resource(document)) for document in documents]
        for document, resource in found:
            try:
                await self.apply(resource, document.body)
            except KubeError as error:
                raise BadManifest(f"{document.title} is refused: {error.message}; correct the file") from error

    async def apply(self, resource: Resource, body: Json) -> None:
        """Apply one object, whoever owned its fields. A server that is busy for a moment is waited for."""
        meta = body["metadata"]
        path = resource.path(meta.get("namespace", _NAMESPACE), meta["name"])
        async with asyncio.timeout(_PATIENCE):
            while True:
                try:
                    await self._ask("PATCH", path, body)
                except _PASSING as error:
                    # This is what the API server calls a field that it does not know.
                    if error.status == _WRONG_FIELD:
                        raise
                    await asyncio.sleep(_WAIT)
                else:
                    return

    async def _resource(self, document: Document) -> Resource:
        api_version, kind = document.body["apiVersion"], document.body["kind"]
        group, _, version = api_version.rpartition("/")
        kinds = await self._kinds(f"/apis/{api_version}" if group else f"/api/{version}")
        # Subresources are listed beside their kind, and some carry its name.
        for one in kinds.resources:
            if one.kind == kind and "/" not in one.name:
                return Resource(group, version, kind, one.name, namespaced=one.namespaced)
        names = sorted({one.kind for one in kinds.resources if "/" not in one.name})
        hint = f"it has {', '.join(names)}" if names else "no such API is installed"
        raise BadManifest(f"{document.origin}: there is no kind {kind} in {api_version} ({hint}); correct the file")

    async def _kinds(self, path: str) -> _Kinds:
        if path not in self._known:
            try:
                self._known[path] = msgspec.json.decode(await self._ask("GET", path), type=_Kinds)
            except NotFound:
                return _Kinds()
        return self._known[path]

    async def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        query = {"fieldManager": MANAGER, "force": "true", "fieldValidation": "Strict"} if body is not None else {}
        encoded = None if body is None else msgspec.json.encode(body)
        answer = await self._transport.request(method, path, query=query, body=encoded, content_type=_CONTENT)
        if 200 <= answer.status < 300:
            return answer.body
        raise from_answer(answer.status, answer.headers, answer.body, method.lower(), path.rpartition("/")[2])
