"""A fleet as users have it: host daemons on machines of their own, and a cluster that places a model on them."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from tests.support.operators import ROOT
from tests.support.own_network import REFUSED, UNSHARE

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 240.0


async def test_a_host_that_dies_is_replaced_and_comes_back_as_a_spare(assets: Path, tmp_path: Path) -> None:
    """In a network of its own: an EndpointSlice holds no loopback addresses, and hosts need addresses of their own."""
    words = (*UNSHARE, sys.executable, "-m", "tests.e2e.fleet_life", str(assets), str(tmp_path))
    process = await asyncio.create_subprocess_exec(
        *words, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            await process.wait()
    said = output.decode()
    assert not said.startswith("unshare: "), f"{REFUSED}\n{said}"
    assert process.returncode == 0, said
