"""A server in place of an engine, which streams words at a fixed pace: `python bench/pacer.py --host HOST --port PORT`.

`bench.up` measures what is before an engine by it. An engine answers 500 streams one after the other and for as long as
the machine lets it; here all of them go on at the same time, and take as long as each other.
"""

from __future__ import annotations

import argparse
import asyncio
import json

from aiohttp import web

_WORDS = 20
_PAUSE_SECONDS = 0.25


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer as OpenAI's API does: at once, or streamed word by word."""
    asked = await request.json()
    if not asked.get("stream"):
        return web.json_response({"choices": [{"message": {"role": "assistant", "content": "word"}}]})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for _ in range(_WORDS):
        await asyncio.sleep(_PAUSE_SECONDS)
        await response.write(b"data: " + json.dumps({"choices": [{"delta": {"content": "word"}}]}).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", answer)
    web.run_app(application, host=given.host, port=given.port, access_log=None, print=lambda *_: None, backlog=1024)


if __name__ == "__main__":
    main()
