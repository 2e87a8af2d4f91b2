"""What tests of the door share: requests as clients send them, and names that are hard to handle."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from tests.envoy.proxies import Envoy

Json = dict[str, Any]

STRANGE = 'org/model:7b "q4" 100%s'
CHAT = "/v1/chat/completions"


async def chat(session: ClientSession, door: Envoy, model: object, **more: object) -> tuple[int, Json]:
    """Ask a model; return status and answer."""
    return await post(session, door, json.dumps({"model": model, **more}))


async def post(
    session: ClientSession, door: Envoy, body: str, content_type: str = "application/json", path: str = CHAT
) -> tuple[int, Json]:
    """Send a body as it is; return status and answer, which must be JSON."""
    content, headers = io.BytesIO(body.encode()), {"content-type": content_type}
    async with session.post(door.url + path, data=content, headers=headers) as response:
        assert response.content_type == "application/json", await response.text()
        return response.status, json.loads(await response.read())


async def get(session: ClientSession, door: Envoy, path: str) -> tuple[int, Json]:
    """Return status and answer of a path, which must be JSON."""
    async with session.get(door.url + path) as response:
        assert response.content_type == "application/json", await response.text()
        return response.status, json.loads(await response.read())
