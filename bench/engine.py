"""A server that costs next to nothing: `python -m bench.engine PORT` streams ten words, one every 50 ms."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from aiohttp import web

WORDS: Final = 10
LAST: Final = b"end\n"

_PAUSE_SECONDS: Final = 0.05


async def _answer(request: web.Request) -> web.StreamResponse:
    await request.read()
    response = web.StreamResponse()
    await response.prepare(request)
    for number in range(WORDS if request.path == "/stream" else 0):
        await response.write(f"{number}\n".encode())
        await asyncio.sleep(_PAUSE_SECONDS)
    await response.write(LAST)
    return response


def main() -> None:
    """Serve until killed."""
    app = web.Application()
    app.add_routes([web.post("/{path:.*}", _answer)])
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None, backlog=2048)


if __name__ == "__main__":
    main()
