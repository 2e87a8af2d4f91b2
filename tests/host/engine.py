"""An engine that streams as slowly as a request says, for what takes too long or too many with a model.

Its command line begins like that of `llama-server`. A request names the number of pieces (`pieces`), the seconds
between them (`every`), those between head and body (`wait`), and after how many pieces the process ends (`die`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Final

from aiohttp import web

PIECE: Final = b'data: {"choices":[{"delta":{"content":"%06d"}}]}\n\n'
END: Final = b"data: [DONE]\n\n"


def stream(pieces: int) -> bytes:
    """The whole answer to a request."""
    return b"".join(PIECE % number for number in range(pieces)) + END


async def answer(request: web.Request) -> web.StreamResponse:
    asked = await request.json()
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "X-Engine": "stand-in", "X-Model": asked["model"]}
    )
    await response.prepare(request)
    await asyncio.sleep(asked.get("wait", 0))
    for number in range(asked["pieces"]):
        if number == asked.get("die"):
            os._exit(3)
        await response.write(PIECE % number)
        await asyncio.sleep(asked.get("every", 0))
    await response.write(END)
    return response


async def health(_: web.Request) -> web.Response:
    return web.Response(text="ok")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    known, _ = parser.parse_known_args()
    application = web.Application(client_max_size=2**30)
    application.add_routes([web.get("/health", health), web.post("/v1/chat/completions", answer)])
    web.run_app(application, host="127.0.0.1", port=known.port, print=None)


if __name__ == "__main__":
    main()
