"""The certificate of a daemon, and what clients see when its files are replaced."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import uvloop
from cryptography.x509 import load_der_x509_certificate

from modelyard.host.certificate import Certificate
from modelyard.host.settings import Tls
from tests.net.certificates import Identity, issue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def write(folder: Path, identity: Identity) -> Tls:
    (folder / "tls.key").write_text(identity.key_pem)
    (folder / "tls.crt").write_text(identity.pem)
    return Tls(folder / "tls.crt", folder / "tls.key")


@asynccontextmanager
async def listening(tls: Tls) -> AsyncIterator[int]:
    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", ssl=Certificate(tls).context) as server:
        yield server.sockets[0].getsockname()[1]


async def presented(port: int, name: str) -> int:
    """The serial number of the certificate that a client gets; one without a name calls by address."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return load_der_x509_certificate(der).serial_number


async def renewal(folder: Path, name: str) -> None:
    before, after = issue("studio"), issue("studio")
    async with listening(write(folder, before)) as port:
        assert await presented(port, name) == before.certificate.serial_number
        # Between the two files, and when both are gone, the old certificate serves.
        (folder / "tls.key").write_text(after.key_pem)
        assert await presented(port, name) == before.certificate.serial_number
        (folder / "tls.crt").unlink()
        assert await presented(port, name) == before.certificate.serial_number
        write(folder, after)
        assert await presented(port, name) == after.certificate.serial_number
        assert await presented(port, name) == after.certificate.serial_number


@pytest.mark.parametrize("name", [pytest.param("studio", id="by name"), pytest.param("", id="by address")])
def test_a_renewed_certificate_is_presented_without_a_restart(tmp_path: Path, name: str) -> None:
    uvloop.run(renewal(tmp_path, name))


def test_a_certificate_that_is_none_is_an_error_at_the_start(tmp_path: Path) -> None:
    tls = write(tmp_path, issue("studio"))
    tls.key.write_text(issue("another").key_pem)
    with pytest.raises(ssl.SSLError, match="mismatch"):
        Certificate(tls)
    with pytest.raises(FileNotFoundError):
        Certificate(Tls(tmp_path / "none", tmp_path / "none"))
