"""Who wrote what, from the API server's own audit log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path

_NOT_COUNTED = frozenset({"leases"})


class _User(Struct):
    username: str


class _Object(Struct, rename="camel"):
    resource: str
    subresource: str = ""


class _Answer(Struct):
    code: int = 0


class _Entry(Struct, rename="camel"):
    verb: str
    user: _User
    object_ref: _Object | None = None
    response_status: _Answer = msgspec.field(default_factory=_Answer)


_ENTRY = msgspec.json.Decoder(_Entry)


def position(log: Path) -> int:
    """Return where the log ends now, to count from there later."""
    return log.stat().st_size


def writes(log: Path, user: str, start: int = 0) -> Counter[str]:
    """Count the writes of a user by verb and resource, without the Lease; those refused are told apart."""
    with log.open("rb") as lines:
        lines.seek(start)
        entries = (_ENTRY.decode(line) for line in lines)
        return Counter(
            _name(entry.verb, entry.object_ref, entry.response_status.code)
            for entry in entries
            if entry.user.username == user and entry.object_ref and entry.object_ref.resource not in _NOT_COUNTED
        )


def _name(verb: str, what: _Object, code: int) -> str:
    target = f"{what.resource}/{what.subresource}" if what.subresource else what.resource
    return f"{verb} {target}" if 200 <= code < 300 else f"{verb} {target} ({code})"
