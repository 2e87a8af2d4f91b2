"""Nothing listens beyond loopback, and nobody else on the machine can read our files or use the API."""

from __future__ import annotations

import json
import os
import ssl
from contextlib import suppress
from ipaddress import ip_address
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from modelyard.kube.config import from_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.yards import Yard

_LISTENS = "0A"


async def test_everything_listens_on_loopback_only(yard: Yard) -> None:
    heard = set()
    for pid in (yard.pid, *yard.processes()):
        with suppress(OSError):  # it has ended meanwhile
            heard |= set(listening(pid))
    assert len(heard) > 8
    assert [str(address) for address, _ in heard if not address.is_loopback] == []


async def test_no_file_of_the_folder_can_be_read_by_others(yard: Yard) -> None:
    # Not `rglob`, which stumbles over folders that vanish: those of pods that end.
    found = [Path(folder, name) for folder, *names in os.walk(yard.path) for name in chain(*names)]
    assert len(found) > 50
    assert [path for path in (yard.path, *found) if is_open_to_others(path)] == []


def is_open_to_others(path: Path) -> bool:
    try:
        return not path.is_symlink() and bool(path.stat().st_mode & 0o077)
    except FileNotFoundError:
        # The folder of a pod that has just ended.
        return False


async def test_the_api_answers_nobody_without_credentials(yard: Yard) -> None:
    server = from_kubeconfig([yard.folder.kubeconfig]).server
    async with aiohttp.ClientSession() as session:
        for path in ("/version", "/healthz", "/api/v1/secrets", "/openapi/v3"):
            async with session.get(server + path, ssl=anybody()) as answer:
                assert answer.status == 401, path


async def test_the_node_answers_nobody_but_the_api_server(yard: Yard) -> None:
    node = json.loads(await yard.kubectl("get", "node", "this-machine", "-o", "json"))
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"https://127.0.0.1:{port}/healthz", ssl=anybody())


async def test_the_operator_may_do_only_what_its_role_says(yard: Yard) -> None:
    operator = ("--as=system:serviceaccount:modelyard-system:modelyard",)
    assert (await yard.kubectl("auth", "can-i", "list", "models", *operator)).strip() == "yes"
    assert (await yard.try_kubectl("auth", "can-i", "list", "secrets", *operator))[1].strip() == "no"
    kubeconfigs = [file.name for file in (yard.path / "kubeconfigs").iterdir() if "modelyard-system" in file.name]
    assert kubeconfigs


def anybody() -> ssl.SSLContext:
    """Connect without proving who we are, to whoever it is."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def listening(pid: int) -> Iterator[tuple[object, int]]:
    """Return the addresses and ports on which a process listens."""
    ours = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            ours.add(str(descriptor.readlink()))
        except OSError:
            continue
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in ours:
                address, _, port = fields[1].partition(":")
                yield address_of(address), int(port, 16)


def address_of(text: str) -> object:
    """Read an address as the kernel prints it: words of four bytes, each in the order of the machine."""
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    return ip_address(b"".join(words))
