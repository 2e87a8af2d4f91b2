"""The few calls that are needed before, and to prepare, a cluster: ready or not, nodes, tokens.

Whoever works with objects of the cluster uses `modelyard.kube`; this speaks to a server that may still be starting.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.pki import Keypair

_TIMEOUT = aiohttp.ClientTimeout(total=10)
_ENDLESS = aiohttp.ClientTimeout(total=None, connect=10)
MERGE_PATCH = "application/merge-patch+json"


class AdminError(ModelyardError):
    """The API server refused a call of ours, or did not answer it."""


class Admin:
    """The API as its administrator sees it. Connections are made at the first call, and again after a `close`."""

    def __init__(self, url: str, authority: Path, identity: Keypair) -> None:
        self._url, self._authority, self._identity = url, authority, identity
        self._opened: aiohttp.ClientSession | None = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            context = ssl.create_default_context(cafile=str(self._authority))
            context.load_cert_chain(str(self._identity.certificate), str(self._identity.key))
            connector = aiohttp.TCPConnector(ssl=context, limit=32)
            self._opened = aiohttp.ClientSession(self._url, connector=connector, timeout=_TIMEOUT)
        return self._opened

    async def close(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            session, self._opened = self._opened, None
            await session.close()

    async def answers(self, path: str) -> bool:
        """Whether a GET succeeds now. A server that is not there answers no."""
        try:
            async with self._session.get(path) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def get(self, path: str) -> dict[str, Any]:
        """Read an object or a list."""
        return await self._call("GET", path)

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object in a collection; the answer is what was stored."""
        return await self._call("POST", path, body)

    async def ensure(self, path: str, body: dict[str, Any]) -> None:
        """Create an object unless one of its name is there already."""
        await self._call("POST", path, body, accept=(409,))

    async def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Merge fields into an object."""
        return await self._call("PATCH", path, body, content_type=MERGE_PATCH)

    async def delete(self, path: str) -> None:
        """Delete an object; one that is gone already is fine."""
        await self._call("DELETE", path, accept=(404,))

    async def follow(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a watch until the server ends it."""
        async with self._session.get(path, timeout=_ENDLESS) as response:
            if not response.ok:
                raise AdminError(f"GET {path}: {response.status}")
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield msgspec.json.decode(line)

    async def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        content_type: str = "application/json",
        accept: tuple[int, ...] = (),
    ) -> dict[str, Any]:
        headers = {"Content-Type": content_type} if body is not None else {}
        try:
            async with self._session.request(method, path, json=body, headers=headers) as response:
                answer: dict[str, Any] = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise AdminError(f"{method} {path}: no answer ({error})") from error
        if response.ok or response.status in accept:
            return answer
        raise AdminError(f"{method} {path}: {response.status} {answer.get('message', '')}")
