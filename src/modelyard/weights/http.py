"""Files over HTTP: what a URL holds, and its bytes from an offset on. All sources but local ones end here.

An answer is used only if it is the version that was seen first and starts where it was asked to. Redirects are followed
by hand: credentials go to the host they are for and nowhere else, and nothing is asked by http after https. Proxies are
those of the environment; passwords of the machine (~/.netrc) are not used.
"""

from __future__ import annotations

import base64
import re
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from yarl import URL

from modelyard.core.exitcodes import Code
from modelyard.weights.failures import Changed, FetchFailed, Transient, bad_signature, busy
from modelyard.weights.types import Body, RetryPolicy, SourceFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CHUNK: Final = 1024 * 1024

_AGAIN: Final = frozenset({408, 425, 429})
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS: Final = 10
_SIGNED: Final = "X-Amz-Signature="


@asynccontextmanager
async def downloads(tls: ssl.SSLContext, policy: RetryPolicy) -> AsyncIterator[Downloads]:
    """Yield a client for as long as the block lasts."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=policy.connect_seconds, sock_read=policy.idle_seconds)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=timeout,
        headers={"User-Agent": "modelyard", "Accept-Encoding": "identity"},
        read_bufsize=CHUNK,
        auto_decompress=False,
    ) as session:
        yield Downloads(session)


class Downloads:
    """An HTTP client for files."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def describe(self, upstream: SourceFile) -> SourceFile:
        """Return the file with its size and ETag. By GET and not by HEAD: a URL may be signed for GET only."""
        async with self._answer(upstream, {}) as response:
            size, etag = _length(response, upstream), _etag(response)
            strong = "" if etag.startswith("W/") else etag
            return msgspec.structs.replace(upstream, size=size, etag=etag, validator=strong)

    @asynccontextmanager
    async def open(self, upstream: SourceFile, offset: int) -> AsyncIterator[Body]:
        """Open a file at an offset. Changed: the server has another version by now."""
        asked = {"Range": f"bytes={offset}-"} if offset else {}
        if offset and upstream.validator:
            asked["If-Range"] = upstream.validator
        async with self._answer(upstream, asked) as response:
            _same_version(response, upstream)
            start, size = _extent(response, upstream, offset)
            yield Body(start, size, response.content.iter_chunked(CHUNK))

    @asynccontextmanager
    async def _answer(self, upstream: SourceFile, asked: dict[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        first = url = _url(upstream.url)
        credentials = {**_credentials(first), **upstream.headers}
        for _ in range(_MOST_REDIRECTS + 1):
            headers = {**credentials, **asked} if url.origin() == first.origin() else asked
            async with self._ask(url.with_user(None), headers) as response:
                if response.status not in _REDIRECTS or not response.headers.get("Location"):
                    _check(response, upstream)
                    yield response
                    return
                url = _onward(url, response.headers["Location"])
        raise _nowhere(first.raw_host)

    @asynccontextmanager
    async def _ask(self, url: URL, headers: dict[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            async with self._session.get(url, headers=headers, proxy=_proxy(url), allow_redirects=False) as response:
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _failure(error, url.raw_host or "") from error


def _url(text: str, base: URL | None = None) -> URL:
    # As it is spelled where that can be sent: another spelling breaks a signature.
    spelled = text.isascii() and text.isprintable() and " " not in text
    try:
        url = URL(text, encoded=spelled)
        url = base.join(url) if base else url
        _ = url.origin(), url.host  # decoded only when they are asked for
    except ValueError as error:
        raise FetchFailed(Code.BAD_SOURCE, "the source has a host that cannot be", "check its spelling") from error
    return url


def _credentials(url: URL) -> dict[str, str]:
    """Return the header that the user-info of a URL stands for."""
    if not (url.raw_user or url.raw_password):
        return {}
    pair = f"{url.user or ''}:{url.password or ''}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _proxy(url: URL) -> str | None:
    """Return the proxy that the environment names for a URL. aiohttp would take passwords from ~/.netrc along."""
    if proxy_bypass(url.host or ""):
        return None
    proxy = getproxies().get(url.scheme)
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _onward(url: URL, location: str) -> URL:
    """Return where a redirect leads."""
    try:
        target = _url(location, url)
    except FetchFailed as error:
        raise _nowhere(url.raw_host) from error
    if target.scheme not in ("http", "https"):
        raise _nowhere(url.raw_host)
    if url.scheme == "https" and target.scheme == "http":
        message = f"{url.raw_host} redirects from https to http"
        raise FetchFailed(Code.REFUSED, message, "use another source")
    return target


def _nowhere(host: str | None) -> FetchFailed:
    return FetchFailed(Code.BAD_SOURCE, f"{host} redirects, and that leads nowhere", "check the source")


def _check(response: aiohttp.ClientResponse, upstream: SourceFile) -> None:
    status, host = response.status, response.url.raw_host
    said = f"{host} answered {status} for {upstream.name}"
    if status in _AGAIN or status >= 500:
        raise busy(status, said, seconds_asked(response.headers.get("Retry-After", "")))
    if status == 416:
        raise Changed(said)
    if status in (401, 403, 407):
        raise FetchFailed(Code.AUTH, said, "check the credentials and that they may read it")
    if status == 400 and _SIGNED in upstream.url:
        raise bad_signature(said)
    if status in (404, 410):
        raise FetchFailed(Code.NOT_FOUND, said, "check the spelling of the source")
    if status not in (200, 206):
        raise FetchFailed(Code.BAD_SOURCE, said, "check that the source is the address of a file")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise FetchFailed(Code.BAD_SOURCE, f"{host} packs {upstream.name} on the way", "turn compression off there")


def _same_version(response: aiohttp.ClientResponse, upstream: SourceFile) -> None:
    etag = response.headers.get("ETag", "")
    if upstream.validator and etag != upstream.validator:
        raise Changed(f"{upstream.name} changed upstream while it was being fetched")


def _etag(response: aiohttp.ClientResponse) -> str:
    if etag := response.headers.get("ETag"):
        return etag
    # A time is good enough to notice a change by, but two versions may share a second: never resume by it.
    modified = response.headers.get("Last-Modified")
    return f'W/"{modified}"' if modified else ""


def _extent(response: aiohttp.ClientResponse, upstream: SourceFile, offset: int) -> tuple[int, int | None]:
    """Return where the answer starts, and the size of the whole file."""
    if response.status == 200:
        start, size = 0, _length(response, upstream)
    else:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if not found or int(found[1]) != offset:
            raise Changed(f"{response.url.host} sent another part of {upstream.name} than was asked for")
        start, size = offset, upstream.size if found[2] == "*" else int(found[2])
    if upstream.size is not None and size is not None and size != upstream.size:
        raise Changed(f"{upstream.name} has {size} bytes where {upstream.size} bytes were announced")
    # A chunked answer does not say how long it is; the listing of the source did.
    return start, upstream.size if size is None else size


def _length(response: aiohttp.ClientResponse, upstream: SourceFile) -> int | None:
    if response.content_length is not None:
        return response.content_length
    chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
    if not chunked and not upstream.sha256:
        # The end of the connection would be the end of the file, and so would every cut.
        message = f"{response.url.host} does not say how long {upstream.name} is"
        raise FetchFailed(Code.BAD_SOURCE, message, "give its sha256, or use a server that sends Content-Length")
    return None


def seconds_asked(retry_after: str) -> float:
    """Return the seconds of a Retry-After header; 0: it cannot be read."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _failure(error: Exception, host: str) -> FetchFailed:
    """Say what went wrong in our own words: those of the library may hold a URL with its signature."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return FetchFailed(Code.REFUSED, f"the certificate of {host} is not trusted", "give its authority with --ca")
    if isinstance(error, aiohttp.ClientHttpProxyError) and error.status in (401, 403, 407):
        message = f"the proxy answered {error.status} on the way to {host}"
        return FetchFailed(Code.AUTH, message, "check HTTPS_PROXY and the credentials in it")
    if isinstance(error, aiohttp.InvalidURL):
        return FetchFailed(Code.BAD_SOURCE, f"{host} leads nowhere", "check the source")
    return Transient(f"{_broken(error)} {host}")


def _broken(error: Exception) -> str:
    """Return how a connection failed, as the start of a sentence that the host ends."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "there is no address for"
        case aiohttp.ClientConnectorError():
            return "no connection can be made to"
        case TimeoutError():
            return "nothing came in time from"
        case _:
            return "the connection broke to"
