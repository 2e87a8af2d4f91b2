"""The smallest cluster: one machine that is up, and another one that serves its model."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from tests.support.operators import ROOT
from tests.support.own_network import REFUSED, UNSHARE

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 180.0


async def test_a_machine_that_is_up_has_another_one_serve_its_model(tmp_path: Path) -> None:
    """In a network of its own: an EndpointSlice holds no loopback addresses."""
    words = (*UNSHARE, sys.executable, "-m", "tests.e2e.two_machines", str(tmp_path))
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
