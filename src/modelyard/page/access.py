"""Who may look at the page: the checks of every request, the one-time token, and sessions.

A browser carries cookies wherever a page of another site sends it, and a name of that site may lead to this machine. So
each request must name our Host, come from our own pages, and carry the cookie of a session, which a one-time token or,
in a cluster, a bearer token was exchanged for. Other users of the machine reach the port, but have neither.
"""

from __future__ import annotations

import hmac
import secrets
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from modelyard.page.yard import Yard

SAFE: Final = frozenset({"GET", "HEAD"})
SESSION_SECONDS: Final = 12 * 3600.0
_MOST_SESSIONS: Final = 64
_OWN_SITE: Final = frozenset({"", "same-origin", "none"})


class Refused(ModelyardError):
    """A request that is not answered; the message goes to the browser."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Origins:
    """The origins that the page is served under, such as `http://127.0.0.1:8080`, and the checks by them."""

    def __init__(self, origins: Collection[str]) -> None:
        self._hosts = {urlsplit(origin).netloc.lower(): origin.lower() for origin in origins}

    def check(self, method: str, headers: Mapping[str, str], *, opens: bool = False) -> None:
        """Refuse a foreign Host, and a request that a page of another origin makes.

        `opens`: it is for the page itself, which a link of another site may lead to, such as a terminal in a browser.
        """
        host, origin = headers.get("Host", "").lower(), headers.get("Origin", "")
        if host not in self._hosts:
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST, "this page is not served under that name")
        if origin and origin.lower() != self._hosts[host]:
            raise Refused(HTTPStatus.FORBIDDEN, "requests from other origins are refused")
        if not opens and headers.get("Sec-Fetch-Site", "") not in _OWN_SITE:
            raise Refused(HTTPStatus.FORBIDDEN, "requests from other sites are refused")
        if method not in SAFE and not origin:
            raise Refused(HTTPStatus.FORBIDDEN, "the request does not say which origin it comes from")


class OneTimeToken:
    """The token of the printed address. It lets one browser in, once."""

    def __init__(self, token: str = "") -> None:
        self.value = token or secrets.token_urlsafe(32)
        self._is_used = False

    def use(self, shown: str) -> bool:
        """Return whether this is the token, and it was not used before."""
        if self._is_used or not hmac.compare_digest(shown.encode(), self.value.encode()):
            return False
        self._is_used = True
        return True


class Session:
    """One browser that was let in, and what it sees."""

    def __init__(
        self, yard: Yard, user: str = "", bearer: str = "", close: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.yard, self.user = yard, user
        self.bearer = bearer
        """The token that it asks the API server with; empty: the credentials are those of the page."""
        self._close = close
        self._is_closed = False
        self.used = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it was closed, or the API server does not know its user any more.

        A page on this machine goes on, and tells it: it has no other credentials to ask for.
        """
        return self._is_closed or (bool(self.bearer) and self.yard.is_rejected)

    async def close(self) -> None:
        """End what runs for this session alone."""
        self._is_closed = True
        if self._close:
            await self._close()


class Sessions:
    """All sessions, by the secret in their cookie. One that is not used for twelve hours ends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    async def open(self, session: Session) -> str:
        """Take a session, and return the secret of its cookie. Of too many, the one used longest ago ends."""
        await self._end_old()
        if len(self._sessions) >= _MOST_SESSIONS:
            await self.end(min(self._sessions, key=lambda secret: self._sessions[secret].used))
        session.used, secret = self._clock(), secrets.token_urlsafe(32)
        self._sessions[secret] = session
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the session of a cookie; None: there is none, or it has ended."""
        session = self._sessions.get(secret)
        if session is None or self._is_old(session) or session.is_over:
            return None
        self.touch(session)
        return session

    def touch(self, session: Session) -> None:
        """Take note that a session is in use: a stream is one request for hours."""
        session.used = self._clock()

    def of_bearer(self, bearer: str) -> Session | None:
        """Return the session of a bearer token; None: there is none. So a proxy without cookies opens only one."""
        wanted, sessions = bearer.encode(), self._sessions.items()
        found = (secret for secret, each in sessions if hmac.compare_digest(each.bearer.encode(), wanted))
        return next(filter(None, map(self.find, found)), None)

    async def end(self, secret: str) -> None:
        """End a session. Ending it twice is fine."""
        if session := self._sessions.pop(secret, None):
            await session.close()

    async def end_all(self) -> None:
        """End all sessions."""
        for secret in list(self._sessions):
            await self.end(secret)

    def _is_old(self, session: Session) -> bool:
        return self._clock() - session.used > SESSION_SECONDS

    async def _end_old(self) -> None:
        for secret in [secret for secret, session in self._sessions.items() if self._is_old(session)]:
            await self.end(secret)
