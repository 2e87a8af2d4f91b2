"""What our event loop adds to uvloop: descriptors have one owner, and a crash is not silent."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from modelyard import event_loop

_AT_ONCE = struct.pack("ii", 1, 0)


def _reset_connection() -> socket.socket:
    """Return a connected socket whose peer has just reset the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    theirs.close()
    return ours


def _is_open(number: int) -> bool:
    return Path(f"/proc/self/fd/{number}").exists()


def test_a_reset_in_the_handshake_leaves_one_owner_of_the_descriptor() -> None:
    async def connect() -> None:
        ours = _reset_connection()
        number = ours.fileno()
        loop = asyncio.get_running_loop()
        with pytest.raises(ConnectionResetError):
            await loop.create_connection(
                asyncio.Protocol, sock=ours, ssl=ssl.create_default_context(), server_hostname="localhost"
            )
        assert not _is_open(number)
        assert ours.fileno() == -1, "it would close the number again, which may be that of another connection by then"

    event_loop.run(connect())


def test_a_socket_that_is_refused_is_closed() -> None:
    async def connect() -> None:
        ours = _reset_connection()
        number = ours.fileno()
        with pytest.raises(ValueError, match="ssl_handshake_timeout"):
            await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours, ssl_handshake_timeout=1.0)
        assert not _is_open(number)

    event_loop.run(connect())


def test_a_crash_of_code_in_c_shows_where_it_was() -> None:
    program = "import asyncio, os\nfrom modelyard import event_loop\nevent_loop.run(asyncio.to_thread(os.abort))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert b"Fatal Python error: Aborted" in ended.stderr
