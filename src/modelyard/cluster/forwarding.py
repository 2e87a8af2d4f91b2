"""A way to a Service that passes everything on: a port that kubectl forwards.

The proxy of the API server keeps the header `Authorization` to itself, so a server that wants an API key cannot be
asked through it.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from modelyard.cluster.answer import NotAnswering
from modelyard.core.text import clean

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.cluster.session import Place
    from modelyard.core.resources import Key

_FORWARDING: Final = re.compile(r"Forwarding from (127\.0\.0\.1:\d+) ")
_SECONDS: Final = 30.0
_LONGEST: Final = 300


@asynccontextmanager
async def forwarded(place: Place, service: Key, port: int) -> AsyncIterator[str]:
    """Yield an address on loopback that leads to a port of a Service; NotAnswering: kubectl cannot lead there."""
    program = shutil.which("kubectl")
    if not program:
        raise NotAnswering(
            "a server with an API key is reached by `kubectl port-forward`, and kubectl is not installed"
        )
    flags = [f"--kubeconfig={place.kubeconfig}"] if place.kubeconfig else []
    flags += [f"--context={place.context}"] if place.context else []
    target = ("-n", service.namespace, f"service/{service.name}", f":{port}")
    process = await asyncio.create_subprocess_exec(
        program, *flags, "port-forward", *target, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        yield await _address(process)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(_SECONDS):
            if found := _FORWARDING.match((await process.stdout.readline()).decode()):
                return found[1]
            told = await process.stderr.read()
    except TimeoutError:
        raise NotAnswering(f"`kubectl port-forward` did not lead there within {_SECONDS:.0f} s") from None
    raise NotAnswering(f"`kubectl port-forward` did not lead there: {clean(told.decode(errors='replace'), _LONGEST)}")
