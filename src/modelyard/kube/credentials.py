"""Credentials for the API server, and how they are kept current.

`config` makes them, `transport` uses them. Tokens and certificates are replaced while we run: files are read again,
exec plugins are run again, and what the server has rejected is not used a second time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct

from modelyard.kube.errors import NoCredentials

REREAD_AFTER: Final = 10.0
"""Seconds after which files are looked at again. Kubelets replace a token long before the old one ends."""


class Redacted(Struct, frozen=True):
    """A value that holds secrets: none of its fields is ever printed."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return nothing: pretty-printed tracebacks would show the fields."""
        return []


class Identity(Redacted, frozen=True):
    """What we authenticate with: a bearer token, a client certificate with its key (PEM), or neither."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


class Credentials(Protocol):
    """A source of identities: static, from files, or from an exec plugin."""

    async def current(self) -> Identity:
        """Return the identity to use now; NoCredentials: there is none."""

    def rejected(self, identity: Identity) -> None:
        """Take note that the server has answered 401 to this identity."""


class StaticCredentials:
    """An identity that never changes."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def current(self) -> Identity:
        """Return the one identity."""
        return self._identity

    def rejected(self, identity: Identity) -> None:
        """Do nothing: there is no other identity to offer."""


Fetch = Callable[[], Awaitable[tuple[Identity, float]]]
"""Returns an identity and for how many seconds it is good."""


class RenewedCredentials:
    """An identity that is fetched again when it is old or was rejected, once for all requests that wait for it."""

    def __init__(self, fetch: Fetch, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch, self._clock = fetch, clock
        self._held: Identity | None = None
        self._until = 0.0
        self._accepted = True
        self._lock = asyncio.Lock()

    async def current(self) -> Identity:
        """Return the identity held, or a new one if that is too old."""
        if self._held is not None and self._fresh:
            return self._held
        # Without the lock, every request that finds the identity too old would run the exec plugin.
        async with self._lock:
            if self._held is None or not self._fresh:
                self._held = await self._renew()
            return self._held

    def rejected(self, identity: Identity) -> None:
        """Fetch again at the next use.

        A late 401 to an identity that has been replaced meanwhile says nothing about the new one.
        """
        if identity == self._held:
            self._accepted = False

    @property
    def _fresh(self) -> bool:
        return self._accepted and self._clock() < self._until

    async def _renew(self) -> Identity:
        try:
            identity, seconds = await self._fetch()
        except NoCredentials:
            # In the middle of a rotation a file may be missing; the old identity serves until the server says no.
            if self._held is None or not self._accepted:
                raise
            return self._held
        self._until, self._accepted = self._clock() + seconds, True
        return identity


class CredentialFiles(Struct, frozen=True):
    """An identity whose parts lie in files that are replaced while we run; parts without a file come from `rest`."""

    rest: Identity = Identity()
    token: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    async def fetch(self) -> tuple[Identity, float]:
        """Return the identity, read in a thread: a volume that hangs must not stop the event loop."""
        return await asyncio.to_thread(self._read), REREAD_AFTER

    def _read(self) -> Identity:
        try:
            return Identity(
                token=self.token.read_text().strip() if self.token else self.rest.token,
                certificate=self.certificate.read_bytes() if self.certificate else self.rest.certificate,
                key=self.key.read_bytes() if self.key else self.rest.key,
            )
        except (OSError, UnicodeDecodeError) as error:
            raise NoCredentials(f"credentials cannot be read: {error}") from error
