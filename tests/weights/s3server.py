"""A real S3 server on a folder: versitygw, built once into the cache and pinned by `tests/servers/versitygw`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pytest
from msgspec import Struct
from obstore.store import S3Store

from controlplane import build
from modelyard.local.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.net.certificates import Identity

MODULE = Path(__file__).resolve().parents[1] / "servers" / "versitygw"
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
BUCKET, ACCESS, SECRET = "models", "hidden-access", "hidden-secret"
SECONDS = 90.0


class S3Server(Struct, frozen=True):
    """A server with one bucket."""

    port: int
    scheme: str

    @property
    def endpoint(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}

    async def put(self, contents: dict[str, bytes], ca: str = "") -> None:
        """Store objects."""
        store = S3Store(
            BUCKET,
            endpoint=self.endpoint,
            region="us-east-1",
            access_key_id=ACCESS,
            secret_access_key=SECRET,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, **({"root_certificate": ca} if ca else {})},
        )
        for name, content in contents.items():
            await obstore.put_async(store, name, content)


def program() -> Path:
    """Return the server's program; build it when it is not there."""
    digest = build.digest(MODULE / "go.mod", MODULE / "go.sum", more=[sys.platform])
    path = build.cache().parent / "versitygw" / digest / "versitygw"
    if not path.exists():
        _build(path)
    return path


def _build(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"versitygw.{os.getpid()}")
    command = [str(build.find_go()), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(partial), PACKAGE]
    done = subprocess.run(command, cwd=MODULE, env={**os.environ, "CGO_ENABLED": "0"}, capture_output=True, text=True)
    if done.returncode != 0:
        shown = f"cd {MODULE} && {' '.join(command)}"
        pytest.fail(f"the S3 server for tests cannot be built:\n{shown}\n{done.stderr}", pytrace=False)
    partial.rename(path)


@asynccontextmanager
async def s3_server(folder: Path, identity: Identity | None = None) -> AsyncIterator[S3Server]:
    """Run the server on a folder, over TLS if it has an identity."""
    for needed in (f"objects/{BUCKET}", "metadata"):
        (folder / needed).mkdir(parents=True)
    [port] = free_ports(1)
    # Not every file system of a test machine has extended attributes: metadata goes beside the objects.
    backend = ("posix", "--sidecar", str(folder / "metadata"), str(folder / "objects"))
    process = await asyncio.create_subprocess_exec(
        program(),
        *("--port", f"127.0.0.1:{port}", "--quiet", *_tls(folder, identity), *backend),
        env={**os.environ, "ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _answering(port)
        yield S3Server(port, "https" if identity else "http")
    finally:
        process.kill()
        await process.wait()


def _tls(folder: Path, identity: Identity | None) -> tuple[str, ...]:
    if identity is None:
        return ()
    (folder / "cert.pem").write_text(identity.pem)
    (folder / "key.pem").write_text(identity.key_pem)
    return ("--cert", str(folder / "cert.pem"), "--key", str(folder / "key.pem"))


async def _answering(port: int) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return


@asynccontextmanager
async def cutting(port: int, limits: list[int]) -> AsyncIterator[int]:
    """Forward connections to a port; each limit cuts one connection after that many bytes from the server."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        limit = limits.pop(0) if limits else None
        behind, ahead = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, ahead, None))
                group.create_task(_pump(behind, writer, limit))
        finally:
            ahead.close()
            writer.close()

    async with await asyncio.start_server(forward, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
    left = sys.maxsize if limit is None else limit
    with suppress(ConnectionError):
        while left and (chunk := await reader.read(min(left, 65_536))):
            writer.write(chunk)
            await writer.drain()
            left -= len(chunk)
    writer.close()
