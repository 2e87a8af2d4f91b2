"""Operators under test: real processes, each under the role that `deploy/rbac.yaml` gives it.

They are forked from a server that has imported everything once: tests start and kill hundreds of them, and the imports
cost more CPU than all that most of them do afterwards.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from modelyard.local.ports import free_ports
from tests.support import operator_main

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from multiprocessing.context import ForkServerProcess

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "modelyard-system"
USER = "system:serviceaccount:modelyard-system:modelyard"

_SECONDS = 120.0
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([operator_main.__name__])


class OperatorProcess:
    """One operator process. It can be stopped, killed and started again, as the same replica."""

    def __init__(self, kubeconfig: Path, mcp_port: int, log: Path, identity: str = "under-test", **env: str) -> None:
        self.log = log
        self._health, self._metrics = free_ports(2)
        self._env = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "LEASE_NAMESPACE": NAMESPACE,
            "IDENTITY": identity,
            "MCP_PORT": str(mcp_port),
            "HEALTH_PORT": str(self._health),
            "METRICS_PORT": str(self._metrics),
            **env,
        }
        self._process: ForkServerProcess | None = None
        self.main = operator_main.main
        """What the process runs: another one serves other kinds."""

    async def start(self) -> None:
        arguments = (self.main, self._env, self.log)
        self._process = _FORKS.Process(target=operator_main.forked, args=arguments, daemon=True)
        # The first one waits for the imports, and what else the test runs must go on meanwhile.
        await asyncio.to_thread(self._process.start)

    def kill(self) -> None:
        if self._process:
            self._process.kill()

    def freeze(self) -> None:
        """Let no time pass for it, as when its machine stalls."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    async def died(self) -> None:
        await self._ended()

    async def stop(self) -> int:
        """Ask it to stop, and return how it ended."""
        assert self._process
        self._process.terminate()
        return await self._ended()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process
        assert self._process.pid
        os.kill(self._process.pid, number)

    async def _ended(self) -> int:
        assert self._process
        try:
            async with asyncio.timeout(_SECONDS):
                while self._process.exitcode is None:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"it does not end; its log does: {self.log.read_text()[-8000:]}") from None
        return self._process.exitcode

    async def readyz(self) -> tuple[int, str]:
        """Return what it says of itself; 0 while it says nothing."""
        return await health(self._health, "/readyz")

    async def metrics(self) -> str:
        return (await health(self._metrics, "/metrics"))[1]

    async def until_ready(self, *words: str) -> str:
        """Wait until it is ready and its words contain these."""
        return await self._until_said(words, lambda status: status == 200)

    async def until_it_says(self, *words: str) -> str:
        """Wait until its readiness text contains these words, ready or not."""
        return await self._until_said(words, lambda _: True)

    async def _until_said(self, words: tuple[str, ...], accepts: Callable[[int], bool]) -> str:
        status, text = 0, ""
        try:
            async with asyncio.timeout(_SECONDS):
                while not (accepts(status) and text and all(word in text for word in words)):
                    await asyncio.sleep(0.05)
                    status, text = await self.readyz()
        except TimeoutError:
            wanted, log = " and ".join(words), self.log.read_text()[-8000:] if self.log.exists() else "nothing"
            raise AssertionError(f"it never says {wanted}, but {status} {text}; its log ends: {log}") from None
        return text

    def assert_no_bug(self) -> None:
        text = self.log.read_text()
        assert "internal error" not in text, text[-8000:]
        assert "Traceback" not in text, text[-8000:]


async def modelyard(*args: str, **env: str) -> asyncio.subprocess.Process:
    """Start the program `modelyard` as users do, with nothing in its environment but this."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from modelyard.cli.main import main; main()", *args,
        env=env, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def health(port: int, path: str) -> tuple[int, str]:
    """Ask an operator's web server; the status is 0 while there is none."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, await answer.text()
    except aiohttp.ClientError:
        return 0, ""


@asynccontextmanager
async def running_operator(kubeconfig: Path, mcp_port: int, log: Path, **env: str) -> AsyncIterator[OperatorProcess]:
    """Run an operator for as long as the block lasts, and fail if it ran into a bug of ours."""
    operator = OperatorProcess(kubeconfig, mcp_port, log, **env)
    await operator.start()
    try:
        await operator.until_ready("leader")
        yield operator
    finally:
        await operator.stop()
    operator.assert_no_bug()
