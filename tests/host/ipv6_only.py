"""A daemon on a machine with IPv6 alone, for `test_join`: run in a network of its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import yaml
from typer.testing import CliRunner

from modelyard.cli.verbs import app
from tests.host.daemons import running
from tests.support.own_network import bring_up_ipv6

ADDRESS = "2001:db8::7"


async def main(folder: Path) -> None:
    bring_up_ipv6(ADDRESS)
    async with running(folder, address="[::]") as daemon, aiohttp.ClientSession() as session:
        joined = CliRunner().invoke(app, ["host", "join", "--dir", str(daemon.state)])
        _, host = yaml.safe_load_all(joined.stdout)
        assert host["spec"]["endpoint"] == f"http://[{ADDRESS}]:{daemon.port}"
        for address in ("127.0.0.1", "[::1]"):
            async with session.get(f"http://{address}:{daemon.port}/healthz") as response:
                assert response.status == 200


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
