"""HTTP with one host: every request is bounded in time and bytes, carries the token, and follows no redirect.

`hosts.py` opens it, the dialects send through it. Addresses are those that `ssrf_guard` lets through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.core.text import clean
from modelyard.net.http_exchange import Unreadable

if TYPE_CHECKING:
    from modelyard.net.ssrf_guard import GuardedSession

REPLY_LIMIT: Final = 1024 * 1024

_LONGEST_SAID: Final = 256


class Said(Struct, frozen=True):
    """What a host answered."""

    status: int
    text: bytes = b""
    retry_after: float = 0.0
    """Seconds that it asks to be left alone for."""

    @property
    def body(self) -> Any:
        """The JSON of the body; None: it is empty, or that of an error which is none. Unreadable: it is no JSON."""
        if not self.text.strip():
            return None
        try:
            return msgspec.json.decode(self.text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if self.status >= 300:
                # What a proxy says in HTML is of no use, but its status is.
                return None
            raise Unreadable("answers with something else than JSON", f"{len(self.text)} bytes: {error}") from error

    @property
    def code(self) -> str:
        """The code of an error, such as `Busy`; empty: there is none."""
        error = self._error
        return clean(str(error.get("code", ""))) if isinstance(error, dict) else ""

    @property
    def message(self) -> str:
        """The text of an error, fit to be shown; empty: there is none."""
        error = self._error
        text = error.get("message", "") if isinstance(error, dict) else error
        return clean(str(text or ""), _LONGEST_SAID)

    @property
    def _error(self) -> Any:
        body = self.body
        return body.get("error", "") if isinstance(body, dict) else ""


class HostHttp:
    """Requests to one host. `ExchangeFailed`: no usable answer came."""

    def __init__(self, session: GuardedSession, endpoint: str, token: str, server_name: str) -> None:
        self._session, self._endpoint, self._server_name = session, endpoint, server_name
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Said:
        """Send one request with a JSON body; None: without one."""
        data = msgspec.json.encode(body) if body is not None else None
        headers = self._headers | ({"Content-Type": "application/json"} if data else {})
        sent = self._session.request(
            method, self._endpoint + path, headers, data, REPLY_LIMIT, server_name=self._server_name
        )
        async with sent as reply:
            return Said(reply.status, await reply.read(), _seconds(reply.header("Retry-After")))


def _seconds(text: str) -> float:
    return min(float(text), 3600.0) if text.isascii() and text.isdigit() else 0.0
