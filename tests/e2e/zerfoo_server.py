"""Stands in for Zerfoo's image on one machine: answers with the name of its model, streamed when asked to.

    python zerfoo_server.py serve --port 8080 MODEL --host 127.97.0.5 --port 8080

A model whose name begins with `broken` is healthy, and answers every request with 500.
"""

from __future__ import annotations

import argparse
import asyncio

from aiohttp import web


async def healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def answer(request: web.Request) -> web.StreamResponse:
    model: str = request.app["model"]
    if model.startswith("broken"):
        return web.json_response({"error": model}, status=500)
    wanted = await request.json()
    if not wanted.get("chunks"):
        return web.json_response({"model": model})
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(wanted["chunks"]):
        await response.write(f"{model}\n".encode())
        await asyncio.sleep(wanted.get("pause", 0.0))
    await response.write(b"end\n")
    return response


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    app = web.Application()
    app["model"] = given.model
    app.add_routes([web.get("/healthz", healthy), web.post("/{path:.*}", answer)])
    web.run_app(app, host=given.host, port=given.port, print=None, access_log=None, handle_signals=True)


if __name__ == "__main__":
    main()
