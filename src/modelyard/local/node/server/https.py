"""An HTTPS server on loopback that serves only clients with a certificate of an authority that it trusts.

The kubelet's server and the metrics server are such servers; their client is the API server.
"""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.local.command_lines import Trust

_HOST: Final = "127.0.0.1"


@asynccontextmanager
async def serving_https(application: web.Application, trust: Trust, port: int) -> AsyncIterator[int]:
    """Serve an application while the block lasts, and yield the port; 0 means any port that is free."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, port, ssl_context=_only_ours(trust)).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _only_ours(trust: Trust) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(trust.authority)
    context.load_cert_chain(trust.identity.certificate, trust.identity.key)
    context.verify_mode = ssl.CERT_REQUIRED
    return context
