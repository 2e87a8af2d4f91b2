"""The port of the door stays the same where it can, and a program that has it is never shared with."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from modelyard.local.ports import free_ports
from modelyard.local.up.door import DEFAULT_PORT, PortTaken, choose_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Listen as Envoy does: other programs of this user may listen there too, if they ask for it."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        yield


def test_a_port_that_is_wanted_is_taken_or_nothing_is(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    assert choose_port(tmp_path, port) == port
    with taken(port), pytest.raises(PortTaken, match=f"port {port} of 127.0.0.1 is taken; .* or change --door-port"):
        choose_port(tmp_path, port)


def test_the_port_of_the_last_start_is_used_again(tmp_path: Path) -> None:
    port = choose_port(tmp_path, free_ports(1)[0])
    assert choose_port(tmp_path, None) == port


def test_another_port_is_found_when_that_of_the_last_start_is_taken(tmp_path: Path) -> None:
    port = choose_port(tmp_path, free_ports(1)[0])
    with taken(port):
        other = choose_port(tmp_path, None)
    assert other != port
    assert choose_port(tmp_path, None) == other


@pytest.mark.parametrize("content", ["", "none", '"1"', "0", "70000"])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "door-port.json").write_text(content)
    assert choose_port(tmp_path, None) >= DEFAULT_PORT


def test_a_port_that_another_machine_is_about_to_use_is_left_to_it(tmp_path: Path) -> None:
    program = "from modelyard.local.ports import free_ports; print(*free_ports(1), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        port = int(other.stdout.readline())
        (tmp_path / "door-port.json").write_text(str(port))
        assert choose_port(tmp_path, None) != port
        other.communicate("\n")
