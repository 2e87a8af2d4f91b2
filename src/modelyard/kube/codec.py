"""The codec: bodies of the API server as values, for `client` and `watch`. A body that does not decode is no answer."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, Struct

from modelyard.core.objects import Json, Stored
from modelyard.kube.errors import Status, Unavailable, from_status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.resources import Resource


class Page(Struct, frozen=True):
    """One page of a list; an empty continue token says that it is the last."""

    items: list[Stored]
    revision: int
    token: str


class _ListMeta(Struct, frozen=True, rename="camel"):
    resource_version: str = "0"
    token: str = msgspec.field(default="", name="continue")


class _List(Struct, frozen=True):
    metadata: _ListMeta
    items: list[dict[str, Raw]] | None = None


class _Event(Struct, frozen=True):
    type: str
    object: dict[str, Raw]


_LIST: Final = msgspec.json.Decoder(_List)
_EVENT: Final = msgspec.json.Decoder(_Event)
_OBJECT: Final = msgspec.json.Decoder(Json)


def stored(resource: Resource, body: bytes) -> Stored:
    """Return one object, as the caches keep it."""
    with _readable():
        return Stored.from_json(resource, body)


def full(body: bytes) -> Json:
    """Return one object with everything in it."""
    with _readable():
        return _OBJECT.decode(body)


def page(resource: Resource, body: bytes) -> Page:
    """Return one page of a list."""
    with _readable():
        read = _LIST.decode(body)
        items = [Stored.from_parts(resource, raw) for raw in read.items or ()]
        return Page(items, int(read.metadata.resource_version), read.metadata.token)


def event(resource: Resource, line: bytes) -> tuple[str, Stored]:
    """Return the type and the object of one watch event. The error of an event of type ERROR is raised."""
    # No context manager here: this runs for every event.
    try:
        read = _EVENT.decode(line)
        if read.type != "ERROR":
            item = Stored.from_parts(resource, read.object)
            item.meta.revision  # noqa: B018 - raises here, not later, when it is no number
            return read.type, item
        status = msgspec.json.decode(msgspec.json.encode(read.object), type=Status)
    except _UNREADABLE as error:
        raise _unreadable() from error
    raise from_status(status, "watch", resource.label)


_UNREADABLE: Final = (msgspec.MsgspecError, KeyError, ValueError, RecursionError)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        raise _unreadable() from error


def _unreadable() -> Unavailable:
    return Unavailable(0, "Unreadable", "the API server sent something that cannot be read", uncertain=True)
