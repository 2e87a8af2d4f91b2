"""The operator's half of the contract against the daemon: what `net/hosts` asks, `modelyard host` understands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from modelyard.core.hosts import HostAddress, HostProbe, LoadModel, SecretKey, UnloadModel
from modelyard.core.reasons import Reason
from modelyard.net.hosts.hosts import Hosts
from tests.host.daemons import SECONDS, TOKEN, YARD, running, said
from tests.net.upstream import Names, guard

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.core.checks import Answer

MIB = 1024 * 1024


async def read_token(_namespace: str, _wanted: SecretKey) -> str:
    return f"{TOKEN}\n"


async def until_listed(hosts: Hosts, check: HostProbe, state: str | None) -> Answer:
    """Probe until the daemon lists its one model in this state; None: until it lists none."""
    async with asyncio.timeout(SECONDS):
        while True:
            answer = await hosts.probe(check)
            listed = [model.get("state", "ready") for model in answer.value.get("models", ())]
            if listed == ([] if state is None else [state]):
                return answer
            await asyncio.sleep(0.1)


async def test_the_operator_has_a_daemon_load_serve_and_unload_a_model(tmp_path: Path):
    async with running(tmp_path / "host", "--memory=256Mi") as daemon:
        hosts = Hosts(guard(Names(mac=[["127.0.0.1"]])), read_token)
        address = HostAddress("default", f"http://mac.example:{daemon.port}", token=SecretKey("mac", "token"))
        check, load = HostProbe(address), LoadModel(address, YARD, "default/yard", memory=64 * MIB)
        assert (await hosts.probe(check)).value["total"] == 256 * MIB
        assert [(await hosts.load(load)).ok for _ in range(2)] == [True, True]
        ready = await until_listed(hosts, check, "ready")
        assert ready.value["models"] == ({"id": YARD, "memory": 64 * MIB, "owner": "default/yard"},)
        assert said(await daemon.ask(YARD)).startswith("I am Yard, ")
        unload = UnloadModel(address, YARD, "default/yard")
        assert [(await hosts.unload(unload)).ok for _ in range(2)] == [True, True]
        await until_listed(hosts, check, None)


async def test_the_operator_understands_why_a_daemon_refuses(tmp_path: Path):
    async with running(tmp_path / "host", "--memory=256Mi") as daemon:
        hosts = Hosts(guard(Names(mac=[["127.0.0.1"]])), read_token)
        stranger = HostAddress("default", f"http://mac.example:{daemon.port}")
        assert (await hosts.probe(HostProbe(stranger))).reason is Reason.UNAUTHORIZED
        known = HostAddress("default", stranger.endpoint, token=SecretKey("mac", "token"))
        too_big = await hosts.load(LoadModel(known, YARD, "default/yard", memory=512 * MIB))
        assert (too_big.ok, too_big.reason) == (False, Reason.INSUFFICIENT_MEMORY)
        nonsense = await hosts.load(LoadModel(known, "ftp://example.com/model", "default/yard"))
        assert (nonsense.ok, nonsense.reason) == (False, Reason.LOAD_FAILED)
