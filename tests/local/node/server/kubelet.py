"""A node that runs nothing, but has logs, commands and addresses: what tests ask the kubelet's server for."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import aiohttp
from msgspec import Struct

from modelyard.core.resources import Key
from modelyard.local.controlplane import ControlPlane
from modelyard.local.node.pods.probes import ContainerAccess
from modelyard.local.node.proxy.addresses import PodAddress
from modelyard.local.node.storage.pod_folders import ContainerFolder, PodFolder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SECONDS = 60.0
_PODS = "/api/v1/namespaces/default/pods"


class Node(Struct):
    """The pods of the node, and what it tells of them."""

    plane: ControlPlane
    state: Path
    name: str
    port: int = 0
    pods: dict[Key, str] = {}
    running: set[str] = set()
    entered: ContainerAccess | None = None
    reachable: PodAddress | None = None

    def uid(self, pod: Key) -> str | None:
        return self.pods.get(pod)

    def is_running(self, uid: str, container: str) -> bool:
        return uid in self.running

    def access(self, uid: str, container: str) -> ContainerAccess | None:
        return self.entered

    def address(self, pod: Key) -> PodAddress | None:
        return self.reachable if pod in self.pods else None

    async def add_pod(self) -> str:
        name = f"pod-{uuid4().hex[:8]}"
        spec = {"nodeName": self.name, "containers": [{"name": "main", "image": "x"}]}
        stored = await self.plane.admin.create(_PODS, {"metadata": {"name": name}, "spec": spec})
        uid = self.pods[Key("default", name)] = stored["metadata"]["uid"]
        self.running.add(uid)
        return name

    async def add_running_pod(self) -> str:
        name = await self.add_pod()
        await self.plane.admin.patch(f"{_PODS}/{name}/status", {"status": {"phase": "Running"}})
        return name

    def files(self, pod: str) -> ContainerFolder:
        folder = PodFolder(self.state, self.pods[Key("default", pod)]).container("main")
        folder.make()
        return folder

    async def logs(self, *args: str) -> tuple[str, str]:
        process = await self.kubectl("logs", *args)
        async with asyncio.timeout(SECONDS):
            output, complaint = await process.communicate()
        return output.decode(), complaint.decode()

    async def exec(self, *args: str, typed: bytes = b"") -> tuple[int | None, str, str]:
        process = await self.kubectl("exec", *args)
        async with asyncio.timeout(SECONDS):
            output, complaint = await process.communicate(typed)
        return process.returncode, output.decode(), complaint.decode()

    async def kubectl(self, *args: str, **env: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(str(self.plane.kubectl), f"--kubeconfig={self.plane.kubeconfig}", *args),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **env},
        )


@asynccontextmanager
async def connected_as(node: Node, user: str | None) -> AsyncIterator[tuple[aiohttp.ClientSession, ssl.SSLContext]]:
    """Yield a session with the server, and the certificate of a user to ask with; None: without a certificate."""
    context = ssl.create_default_context(cafile=str(node.plane.ca))
    if user:
        authority = node.plane._authority
        # Not in the file of the API server itself, which would read it and close its connections.
        identity = authority.store(f"test-{user}", authority.client(user))
        context.load_cert_chain(identity.certificate, identity.key)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{node.port}") as session:
        yield session, context
