"""A node in a process of its own, so that tests can kill it: `node_process.py KUBECONFIG STATE NAME`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from modelyard import event_loop
from tests.local.node.yard import node_of


async def main() -> None:
    kubeconfig, state, name = sys.argv[1:]
    async with node_of(Path(kubeconfig), Path(state), name):
        await asyncio.Event().wait()


with suppress(KeyboardInterrupt):
    # As in production.
    event_loop.run(main())
