"""The two ways in: the one-time token of a page on this machine, and a bearer token of the cluster's own users.

`routes` calls them. On this machine every browser sees the cluster with the credentials of the user who started the
page. In a cluster the page has no credentials at all: each session asks the API server with the token of its user.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from modelyard.core.resources import Resource
from modelyard.kube.client import Client
from modelyard.kube.credentials import Identity, StaticCredentials
from modelyard.kube.errors import Forbidden, Unauthorized
from modelyard.kube.transport import HttpTransport
from modelyard.page.access import OneTimeToken, Session
from modelyard.page.yard import Yard

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.kube.connection import Connection
    from modelyard.kube.credentials import Credentials

_REVIEW = Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)
_NOT_KNOWN = frozenset({"", "system:anonymous"})


class Login(Protocol):
    """A way in."""

    page: str
    """The file that is shown to a browser without a session."""
    remedy: str
    """What a request without a session is told."""

    def by_token(self, token: str) -> Session | None:
        """Return a session for the token of an address; None: it is not valid, or not any more."""

    async def by_bearer(self, bearer: str) -> Session | None:
        """Return a session for the token of a user of the cluster; None: the API server does not know it."""


class TokenLogin:
    """The way in on one machine: whoever has the address that was printed, once."""

    page, remedy = "stranger.html", "open the address that `modelyard page` or `modelyard up` has printed"

    def __init__(self, token: OneTimeToken, yard: Yard) -> None:
        self._token, self._yard = token, yard

    def by_token(self, token: str) -> Session | None:
        """Return a session for the printed token, the first time."""
        return Session(self._yard) if self._token.use(token) else None

    async def by_bearer(self, _: str) -> Session | None:
        """Return None: users of the cluster are none of this machine."""
        return None


class BearerLogin:
    """The way in in a cluster: whoever the API server knows."""

    page, remedy = "login.html", "sign in with a bearer token of the cluster"

    def __init__(self, connect: Callable[[Credentials], Connection], namespace: str = "") -> None:
        self._connect, self._namespace = connect, namespace

    def by_token(self, _: str) -> Session | None:
        """Return None: no address lets anyone in."""
        return None

    async def by_bearer(self, bearer: str) -> Session | None:
        """Return a session that asks the API server with this token; None: the API server does not know it."""
        client = Client(HttpTransport(self._connect(StaticCredentials(Identity(token=bearer)))))
        try:
            user = await _name(client)
        except BaseException:
            await client.close()
            raise
        if user in _NOT_KNOWN:
            await client.close()
            return None
        yard = Yard(client, self._namespace)
        running = asyncio.create_task(yard.run())

        async def close() -> None:
            running.cancel()
            await asyncio.wait([running])
            await client.close()

        return Session(yard, user, bearer, close)


async def _name(client: Client) -> str:
    """Return the name of the user that the API server takes us for; empty: it does not know us."""
    body = {"apiVersion": _REVIEW.api_version, "kind": _REVIEW.kind, "metadata": {}}
    try:
        review = await client.create(_REVIEW, body)
    except (Unauthorized, Forbidden):
        return ""
    return str((review.status.get("userInfo") or {}).get("username", ""))
