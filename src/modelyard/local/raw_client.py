"""A raw API client: paths and bodies, for a server that may still be starting. As `kubectl get --raw`.

The control plane waits and prepares with it, and so do tests. All other code uses `kube.Client`, which knows resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelyard.core.errors import ModelyardError
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.errors import Unavailable
from modelyard.kube.transport import HttpTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_SECONDS: Final = 10.0
_LONGEST_SILENCE: Final = 3600.0
_JSON: Final = "application/json"
_MERGE_PATCH: Final = "application/merge-patch+json"


class RawClientError(ModelyardError):
    """The API server refused a call, or did not answer it."""


class RawClient:
    """Calls to one API server as the user of a kubeconfig. It connects at the first call, and again after `close`."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._opened: HttpTransport | None = None

    @property
    def _transport(self) -> HttpTransport:
        if self._opened is None:
            self._opened = HttpTransport(from_kubeconfig([self._kubeconfig]))
        return self._opened

    async def close(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            transport, self._opened = self._opened, None
            await transport.close()

    async def answers(self, path: str) -> bool:
        """Whether a GET succeeds now; False also when no server listens."""
        try:
            return (await self._transport.request("GET", path, timeout=_SECONDS)).status == 200
        except Unavailable:
            return False

    async def get(self, path: str) -> dict[str, Any]:
        """Return an object or a list."""
        return await self._call("GET", path)

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object in a collection, and return it as it is stored."""
        return await self._call("POST", path, body)

    async def ensure(self, path: str, body: dict[str, Any]) -> None:
        """Create an object unless one of its name exists."""
        await self._call("POST", path, body, accept=409)

    async def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Apply a JSON merge patch to an object, and return it as it is stored."""
        return await self._call("PATCH", path, body, content_type=_MERGE_PATCH)

    async def delete(self, path: str) -> None:
        """Delete an object. One that does not exist is fine."""
        await self._call("DELETE", path, accept=404)

    async def follow(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a watch until the server ends it."""
        try:
            async with self._transport.stream(path, query={}, idle=_LONGEST_SILENCE) as stream:
                if stream.status != 200:
                    raise RawClientError(f"GET {path}: {stream.status}")
                async for line in stream.lines:
                    yield msgspec.json.decode(line)
        except Unavailable as error:
            raise RawClientError(f"GET {path}: no answer ({error})") from error

    async def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        content_type: str = _JSON,
        accept: int = 0,
    ) -> dict[str, Any]:
        sent = None if body is None else msgspec.json.encode(body)
        try:
            response = await self._transport.request(
                method, path, body=sent, content_type=content_type, timeout=_SECONDS
            )
        except Unavailable as error:
            raise RawClientError(f"{method} {path}: no answer ({error})") from error
        if response.status == accept:
            # Of a kind that is not defined, the answer is no JSON.
            return {}
        answer: dict[str, Any] = msgspec.json.decode(response.body)
        if response.status < 300:
            return answer
        raise RawClientError(f"{method} {path}: {response.status} {answer.get('message', '')}")
