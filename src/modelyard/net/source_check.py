"""Answers `RemoteWeights`: which version of a Model's weights its source has, how long it is, what its header says.

One GET for the first bytes, closed as soon as they tell enough: at once, if the version was read before. A HEAD would
be refused where a URL is signed for GET, as hubs and object stores do, and would leave the header unread. Nothing is
stored, and no credentials are sent: pods fetch with theirs, so a failure here keeps no model from being served.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec
import structlog

from modelyard.core.checks import Answer
from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.core.text import clean
from modelyard.net.file_check import check_file
from modelyard.net.gguf import BadHeader, HeaderReader
from modelyard.net.http_exchange import Distrusted, ExchangeFailed, NoAnswer, Unreadable
from modelyard.net.ssrf_guard import NotAllowed, guarded_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.core.checks.remote_weights import RemoteWeights
    from modelyard.core.gguf import GgufReport
    from modelyard.net.http_exchange import Reply
    from modelyard.net.ssrf_guard import Guard

HEADER_LIMIT: Final = 32 * 1024 * 1024
"""A header that is longer is not read."""

_NOTHING: Final[Mapping[str, Any]] = {}
_MOST_REMEMBERED: Final = 4096
_LONGEST_ETAG: Final = 256
# A server that has less than the first byte says so with 416.
_THERE: Final = frozenset({200, 206, 416})
_LENGTH: Final = re.compile(r"[0-9]{1,18}")

_CHECK_SOURCE: Final = "check spec.source"
_SENDS_NONE: Final = "the operator looks without credentials; if pods have none either, check spec.source"

_log = structlog.get_logger(__name__)


class SourceChecker:
    """Checks sources, and reads the header of a version only once: vocabularies make headers megabytes long."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._seen: dict[tuple[str, bool], dict[str, Any]] = {}

    async def check(self, check: RemoteWeights) -> Answer:
        """Return what is at the URL, or why that could not be found out."""
        place = (check.url, check.gguf)
        answer = await check_source(check, self._guard, self._seen.get(place, _NOTHING))
        if answer.ok:
            # Taken out and put back, so that the first entry is always the least recently used one.
            self._seen.pop(place, None)
            self._seen[place] = answer.value
        if len(self._seen) > _MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return answer


async def check_source(check: RemoteWeights, guard: Guard, before: Mapping[str, Any] = _NOTHING) -> Answer:
    """Return what is at the URL, or why that could not be found out. A file without a readable header is there as well.

    `before` is the value of the last answer. It is returned again if the file is still the same by its ETag.
    """
    if check.url.startswith("file://"):
        path = Path(unquote(check.url.removeprefix("file://")))
        return await asyncio.to_thread(check_file, path, before, gguf=check.gguf)
    last = HEADER_LIMIT - 1 if check.gguf else 0
    host = _host(check.url)
    try:
        async with guarded_session(guard) as session, session.get(check.url, f"bytes=0-{last}", HEADER_LIMIT) as reply:
            if reply.status not in _THERE:
                return _failed(_refusal(reply.status, host))
            return Answer(True, Reason.ANSWERED, f"{host} answered", await _seen(reply, check, before))
    except ExchangeFailed as failure:
        _log.debug("upstream could not be looked at", host=host, detail=failure.detail)
        return _failed(_trouble(failure, host))


async def _seen(reply: Reply, check: RemoteWeights, before: Mapping[str, Any]) -> dict[str, Any]:
    value = {"etag": clean(reply.header("ETag"), _LONGEST_ETAG), "contentLength": _length(reply)}
    if value["etag"] and all(before.get(name) == here for name, here in value.items()):
        return dict(before)
    from_the_start = reply.status == 200 or reply.header("Content-Range").startswith("bytes 0-")
    header = await _header(reply) if check.gguf and from_the_start else None
    return value if header is None else {**value, "gguf": msgspec.to_builtins(header)}


def _length(reply: Reply) -> int | None:
    """Return the length of the whole file; None: the server does not say."""
    if reply.header("Content-Encoding").lower() not in ("", "identity"):
        # What is packed on the way has another length than the file.
        return None
    whole = reply.header("Content-Range").rpartition("/")[2]
    text = reply.header("Content-Length") if reply.status == 200 else whole
    return int(text) if _LENGTH.fullmatch(text) else None


async def _header(reply: Reply) -> GgufReport | None:
    reader = HeaderReader()
    try:
        async with aclosing(reply.chunks()) as chunks:
            async for chunk in chunks:
                header = reader.feed(chunk)
                if header is not None:
                    return header
    except (BadHeader, Unreadable) as error:
        _log.debug("no GGUF header", detail=str(error))
    return None


def _host(url: str) -> str:
    """Return the part of a URL that may be shown: the others may hold secrets."""
    try:
        return clean(urlsplit(url).hostname or "") or "spec.source"
    except ValueError:
        return "spec.source"


def _refusal(status: int, host: str) -> Problem:
    said = f"{host} answered with HTTP {status}"
    if status in (401, 403, 407):
        return Problem(Reason.UPSTREAM_REFUSED, said, _SENDS_NONE)
    if status in (404, 410):
        return Problem(Reason.UPSTREAM_NOT_FOUND, said, "check the spelling of spec.source")
    if status == 429 or status >= 500:
        return Problem(Reason.UPSTREAM_UNREACHABLE, said, "it is asked again; its server is busy or has trouble")
    return Problem(Reason.UPSTREAM_UNREACHABLE, said, _CHECK_SOURCE)


def _trouble(failure: ExchangeFailed, host: str) -> Problem:
    match failure:
        case NotAllowed():
            remedy = "use a public address in spec.source, or let an administrator add it to --allowed-remote-hosts"
            return Problem(Reason.ADDRESS_NOT_ALLOWED, f"{host} {failure}", remedy)
        case NoAnswer():
            remedy = f"{_CHECK_SOURCE} and that the operator can reach this host"
            return Problem(Reason.UPSTREAM_UNREACHABLE, f"{host} {failure}", remedy)
        case Distrusted(out_of_date=False):
            wrong = f"{host} presents a certificate that the operator does not trust"
            return Problem(Reason.UPSTREAM_UNREACHABLE, wrong, _CHECK_SOURCE)
        case _:
            return Problem(Reason.UPSTREAM_UNREACHABLE, f"{host} {failure}", _CHECK_SOURCE)


def _failed(problem: Problem) -> Answer:
    return Answer(False, problem.reason, problem.text)
