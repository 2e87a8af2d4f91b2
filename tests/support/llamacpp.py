"""Pods of the llamacpp engine on this machine: the real downloader, the real llama.cpp server, no containers.

What runs is what the operator would put into the pod. Only two things are translated: the program that an image
starts, and the folders that volumes are mounted at.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml
from msgspec import Struct
from typer.testing import CliRunner

from modelyard.cli.verbs import app
from modelyard.local.program import Program

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

Json = dict[str, Any]

DATA = Path(__file__).resolve().parents[1] / "data"
LAUNCHER = (sys.executable, "-m", "modelyard.local.llama_server")
SECONDS = 90.0

_IMAGE_STARTS = "/app/llama-server"


class LlamaServer(Struct, frozen=True):
    """A server that listens."""

    port: int
    pid: int | None = None

    async def get(self, path: str) -> str:
        async with aiohttp.ClientSession() as session, session.get(self._url(path)) as response:
            response.raise_for_status()
            return await response.text()

    async def ask(self, question: str) -> str:
        """Return the whole answer to a question."""
        async with aiohttp.ClientSession() as session, self._asking(session, question) as response:
            response.raise_for_status()
            return str((await response.json())["choices"][0]["message"]["content"])

    async def stream(self, question: str) -> list[str]:
        """Return the events of an answer, one for each line of data."""
        async with aiohttp.ClientSession() as session, self._asking(session, question, stream=True) as response:
            response.raise_for_status()
            lines = (await response.text()).splitlines()
        return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]

    def _asking(self, session: aiohttp.ClientSession, question: str, **more: Any) -> Any:
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0, **more}
        return session.post(self._url("/v1/chat/completions"), json=body)

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


def pod_of(manifests: Iterable[Json], file: Path) -> Json:
    """Return the pod that the only Deployment of some manifests makes, as `modelyard plan` prints it."""
    file.write_text(yaml.safe_dump_all(manifests))
    planned = CliRunner().invoke(app, ["plan", "-f", str(file)])
    assert planned.exit_code == 0, planned.output
    (deployment,) = (child for child in yaml.safe_load_all(planned.stdout) if child["kind"] == "Deployment")
    pod: Json = deployment["spec"]["template"]["spec"]
    return pod


def arguments(container: Json, volumes: dict[str, Path]) -> list[str]:
    """Return the arguments of a container, with the folders of its volumes as they are here."""
    mounts = (mount for mount in container["volumeMounts"] if mount["name"] in volumes)
    mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in mounts}
    return [_here(word, mounted) for word in container["args"]]


def server_command(container: Json, volumes: dict[str, Path]) -> tuple[str, ...]:
    """Return the local command for the container of the llamacpp engine."""
    assert container.get("command", [_IMAGE_STARTS]) == [_IMAGE_STARTS]
    return (*LAUNCHER, *arguments(container, volumes))


@asynccontextmanager
async def running(command: Iterable[str], port: int, log: Path) -> AsyncIterator[LlamaServer]:
    """Run a server for the length of a block, from the moment it is well."""
    program = Program(tuple(command), log)
    await program.start()
    try:
        await _until_well(LlamaServer(port), program)
        yield LlamaServer(port, program.pid)
    finally:
        await program.stop()


async def _until_well(server: LlamaServer, program: Program) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            program.check()
            try:
                await server.get("/health")
            except aiohttp.ClientError:
                await asyncio.sleep(0.02)
            else:
                return


def _here(word: str, mounted: dict[str, Path]) -> str:
    for folder, here in mounted.items():
        if word.startswith(f"{folder}/"):
            return f"{here}{word.removeprefix(folder)}"
    return word
