"""Server-side apply of objects of any kind that the API server serves, as `kubectl apply --server-side`.

`run` applies the manifests of the user with it, and `install` those of the operator.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.resources import NAMESPACE, Key, Resource
from modelyard.kinds import ALL
from modelyard.kube.errors import KubeError, NotFound, TooManyRequests, Unavailable
from modelyard.manifests.documents import BadManifest, Document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelyard.core.objects import Json, Stored
    from modelyard.kube.client import Client

# The field manager of kubectl, so that a later `kubectl apply --server-side` of the same file meets no conflict.
MANAGER: Final = "kubectl"
_NAMESPACE: Final = "default"
_PATIENCE: Final = 30.0
_WAIT: Final = 0.2
_WRONG_FIELD: Final = 500
_PASSING: Final = (TooManyRequests, Unavailable)
_OURS: Final = {(kind.resource.api_version, kind.resource.kind): kind.resource for kind in ALL}
"""Our own kinds need no discovery: an API server that has just started lists new CRDs only after a moment."""


class _Kind(Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool


class _Kinds(Struct, frozen=True):
    resources: tuple[_Kind, ...] = ()


async def apply_all(client: Client, documents: Sequence[Document]) -> list[Stored]:
    """Apply these objects, Namespaces first and else in order, and return them as stored.

    BadManifest, and none is applied, when the kind of one is not served. It names those that were applied before one
    that the API server refuses.
    """
    versions = dict.fromkeys(document.body["apiVersion"] for document in documents)
    known = {version: await _kinds(client, version) for version in versions}
    found = [(document, _resource(document, known[document.body["apiVersion"]])) for document in documents]
    applied: list[Stored] = []
    # In the files of a folder, a Namespace may come after what is in it.
    for document, resource in sorted(found, key=lambda each: each[1] != NAMESPACE):
        try:
            applied.append(await apply(client, resource, document.body))
        except KubeError as error:
            why = f"{document.title} is refused: {error.message}; correct the file{_before(applied)}"
            raise BadManifest(why) from error
    return applied


def _before(applied: Sequence[Stored]) -> str:
    names = ", ".join(f"{item.resource.kind} {item.meta.name}" for item in applied)
    return f". Applied before it: {names}" if names else ""


async def apply(client: Client, resource: Resource, body: Json) -> Stored:
    """Apply one object by force, and return it. While the server is busy, retry for 30 s; then TimeoutError."""
    key = Key(body["metadata"].get("namespace", _NAMESPACE), body["metadata"]["name"])
    async with asyncio.timeout(_PATIENCE):
        while True:
            try:
                return await client.apply(resource, key, body, manager=MANAGER, strict=True)
            except _PASSING as error:
                # The API server answers an unknown field with this status, which is no reason to retry.
                if error.status == _WRONG_FIELD:
                    raise
                await asyncio.sleep(_WAIT)


async def _kinds(client: Client, api_version: str) -> _Kinds:
    try:
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        return msgspec.json.decode(await client.raw(path), type=_Kinds)
    except NotFound:
        return _Kinds()


def _resource(document: Document, known: _Kinds) -> Resource:
    api_version, kind = document.body["apiVersion"], document.body["kind"]
    if ours := _OURS.get((api_version, kind)):
        return ours
    group, _, version = api_version.rpartition("/")
    # Discovery lists subresources beside their resource, some with the same kind.
    kinds = [one for one in known.resources if "/" not in one.name]
    for one in kinds:
        if one.kind == kind:
            return Resource(group, version, kind, one.name, namespaced=one.namespaced)
    names = sorted({one.kind for one in kinds})
    hint = f"it has {', '.join(names)}" if names else "no such API is installed"
    raise BadManifest(f"{document.origin}: there is no kind {kind} in {api_version} ({hint}); correct the file")
