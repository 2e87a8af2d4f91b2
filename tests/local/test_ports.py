"""Ports are free, different, and the same at the next start."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from modelyard.local import ports
from modelyard.local.ports import NoFreePort, free_ports, is_free, keep_ports


def test_ports_are_kept_from_one_start_to_the_next(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = keep_ports(file, ("a", "b"))
    assert len(set(first.values())) == 2
    assert keep_ports(file, ("a", "b")) == first


def test_a_port_that_somebody_took_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = keep_ports(file, ("a", "b"))
    with socket.create_server(("127.0.0.1", first["a"])):
        second = keep_ports(file, ("a", "b"))
    assert second["a"] != first["a"]
    assert second["b"] == first["b"]


@pytest.mark.parametrize("damaged", ["", "{", '{"a": "x"}', '{"a": 0}', '{"a": 70000}', "[]"])
def test_a_damaged_file_is_replaced(tmp_path: Path, damaged: str) -> None:
    file = tmp_path / "ports.json"
    file.write_text(damaged)
    first = keep_ports(file, ("a",))
    assert is_free(first["a"])
    assert keep_ports(file, ("a",)) == first


def test_a_port_that_another_process_is_about_to_use_is_not_chosen(tmp_path: Path) -> None:
    program = "from modelyard.local.ports import free_ports; print(*free_ports(1), flush=True); input()"
    file = tmp_path / "ports.json"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        port = int(other.stdout.readline())
        file.write_text(f'{{"a": {port}}}')
        assert is_free(port)
        assert keep_ports(file, ("a",))["a"] != port
        other.communicate("\n")
    file.write_text(f'{{"a": {port}}}')
    assert keep_ports(file, ("a",)) == {"a": port}


def test_no_port_is_chosen_twice_and_a_process_does_not_hold_ports_for_ever() -> None:
    before = open_files()
    chosen = [port for _ in range(ports._MOST_CLAIMS // 2) for port in free_ports(2)]
    assert len(set(chosen)) == len(chosen)
    for _ in range(10):
        free_ports(ports._MOST_CLAIMS)
    assert open_files() <= before + ports._MOST_CLAIMS


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_port_is_free_again_when_nobody_listens() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
    assert is_free(port)


def test_a_machine_without_free_ports_is_a_clear_error() -> None:
    with pytest.raises(NoFreePort, match="end the programs that hold them"):
        free_ports(1, but=range(2**16))


def test_many_ports_are_found_although_some_are_taken() -> None:
    assert len(set(free_ports(ports._TRIES, but=ports._RANGE[:1000]))) == ports._TRIES
