"""Two machines: `modelyard up` on one and `modelyard host` on the other, in a network of their own.

`test_two_machines` runs it as a process, because a network namespace belongs to one. Its exit code is the verdict.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from modelyard.host.join import Joining, manifests
from tests.e2e.yards import Yard, condition, is_ready, manifest, model, running_yard, service
from tests.host.daemons import TOKEN, running
from tests.support.own_network import bring_up

Json = dict[str, Any]

PORT = 11434
ADDRESS, STRANGER = "10.77.0.2", "10.78.0.2"
NETWORK = "10.77.0.0/24"


async def main(folder: Path) -> None:
    """Start both machines, and have the second serve a model of the first."""
    bring_up((ADDRESS, STRANGER))
    joined = manifests(Joining("studio", f"http://{ADDRESS}:{PORT}", TOKEN, "default"))
    closed = manifests(Joining("stranger", f"http://{STRANGER}:{PORT}", TOKEN, "default"))
    file = manifest(folder / "metal.yaml", *joined, *closed, for_macs(model("yard")), service("yard"))
    async with running(folder / "host", "--memory=2Gi", address=ADDRESS, port=PORT):
        async with running_yard(folder / "state", f"--host-networks={NETWORK}", "-f", file) as yard:
            await see(yard)


async def see(yard: Yard) -> None:
    """See that the model is served at its Service and at the door, and that no other network is used."""
    served = await yard.until(is_ready, "inferenceservice", "yard")
    assert served["status"]["readyReplicas"] == 1
    assert (await yard.pods("yard")) == []
    await yard.answer_as("yard", await yard.url("yard"), model="yard")
    assert (await yard.answer_at_door("yard")).startswith("I am Yard, ")
    stranger = await yard.until(lambda body: condition(body, "Reachable"), "inferencehost", "stranger")
    told = condition(stranger, "Reachable")
    assert (told["status"], told["reason"]) == ("False", "AddressNotAllowed"), told


def for_macs(body: Json) -> Json:
    return {**body, "spec": {**body["spec"], "hardware": {"accelerator": "metal", "memoryBudget": "1Gi"}}}


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
