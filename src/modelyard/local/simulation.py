"""Simulated nodes: the real scheduler binds pods to them, and kwok reports what a kubelet would.

`cluster` and the benchmarks use it. No container runs. The image of a pod decides how it fares; `stages/pods.yaml`
lists the choices. Claims of the default storage class are bound to volumes without storage.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelyard.local.controlplane import NotReady
from modelyard.local.files import tail
from modelyard.local.ports import free_ports, is_free
from modelyard.local.program import Program
from modelyard.local.storage_class import STORAGE_CLASS, standard_class

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from modelyard.local.controlplane import ControlPlane

_STAGES = Path(__file__).parent / "stages"
_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.05
_POD_RANGE = "10.244.0.0/16"
_NODES = "/api/v1/nodes"
_MANAGED = {"simulate.modelyard.dev/node": "true"}
_PROVISIONER = "simulate.modelyard.dev"


class Simulation:
    """The simulated nodes of one control plane, which must have been started with its workloads."""

    def __init__(self, controlplane: ControlPlane) -> None:
        self._admin = controlplane.admin
        self._port = free_ports(1)[0]
        kubeconfig = controlplane.client_kubeconfig("simulated-nodes", ("system:masters",))
        self._kwok = Program(
            [
                controlplane.assets / "kwok",
                f"--kubeconfig={kubeconfig}",
                *(f"--config={file}" for file in sorted(_STAGES.glob("*.yaml"))),
                *(f"--manage-nodes-with-label-selector={name}={value}" for name, value in _MANAGED.items()),
                # Without Leases the node controller marks the nodes as unreachable after 50 s.
                "--node-lease-duration-seconds=40",
                f"--cidr={_POD_RANGE}",
                f"--server-address=127.0.0.1:{self._port}",
                "--v=WARN",
            ],
            log=controlplane.folder / "logs" / "kwok.log",
        )

    async def start(self) -> None:
        """Start kwok and return when it runs. It reports for nodes that exist and those that are added later."""
        await self._admin.ensure(STORAGE_CLASS.path(), standard_class(_PROVISIONER))
        await self._kwok.start()
        await self._until(self._is_up, "kwok is not ready")

    async def stop(self) -> None:
        """Stop kwok. To the control plane this is a power cut of all nodes."""
        await self._kwok.stop()

    async def add_node(
        self,
        name: str,
        *,
        cpu: str = "64",
        memory: str = "256Gi",
        gpus: int = 0,
        gpu_resource: str = "nvidia.com/gpu",
        labels: Mapping[str, str] | None = None,
        taints: Iterable[Mapping[str, str]] = (),
    ) -> None:
        """Create a node unless it exists, and return when pods can be scheduled on it."""
        wanted = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {}), **_MANAGED}
        capacity = {"cpu": cpu, "memory": memory, "pods": "10000", "ephemeral-storage": "1Ti"}
        if gpus:
            capacity[gpu_resource] = str(gpus)
        status = {"capacity": capacity, "allocatable": capacity}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": wanted},
            "spec": {"taints": [dict(taint) for taint in taints]},
            # As a kubelet registers it. Until a later write, the scheduler would call it short of everything.
            "status": status,
        }
        await self._admin.ensure(_NODES, node)
        await self._admin.patch(f"{_NODES}/{name}/status", {"status": status})

        async def schedulable() -> bool:
            return _is_schedulable(await self._admin.get(f"{_NODES}/{name}"))

        await self._until(schedulable, f"node {name} is not ready")

    async def remove_node(self, name: str) -> None:
        """Delete a node. The pod garbage collector deletes its pods."""
        await self._admin.delete(f"{_NODES}/{name}")

    async def _is_up(self) -> bool:
        # kwok listens when all its parts run. Before, it exits at the first call that the API server does not answer.
        return not is_free(self._port)

    async def _until(self, reached: Callable[[], Awaitable[bool]], otherwise: str) -> None:
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while not await reached():
                    self._kwok.check()
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            log = self._kwok.log
            raise NotReady(f"{otherwise}; {log} ends:\n{tail(log)}") from None


def _is_schedulable(node: dict[str, Any]) -> bool:
    # The node controller removes these taints when it has seen that the node is ready.
    held = any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", []))
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", [])
    )
    return ready and not held
