"""What all pods of a node share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import aiohttp
from msgspec import Struct

from modelyard.kube.client import Client
from modelyard.local.node.pods.gpus import Gpus
from modelyard.local.node.process.images import ImageTable
from modelyard.local.node.process.podman import Podman
from modelyard.local.node.proxy.addresses import PodAddress, PodAddresses
from modelyard.local.node.proxy.service_dns import ServiceAddresses

Drain = Callable[[PodAddress], Awaitable[None]]
"""Waits until nobody is sent to a pod any more, and all who were have their answers."""


async def no_drain(pod: PodAddress) -> None:
    """Wait for nobody: nobody is sent to pods here."""


class Timings(Struct, frozen=True):
    """How often, and how long, in seconds."""

    lease: float = 10.0
    """Between two renewals of the node's Lease."""
    volumes: float = 60.0
    """Between two looks at what volumes are copies of."""
    after_bug: float = 5.0
    """Until a pod is tried again whose life ended in a bug of ours."""
    lock: float = 20.0
    """How long to wait for an earlier node of the same folder to be gone."""


class NodeContext(Struct, frozen=True):
    """The machine and the cluster, as pods meet them."""

    client: Client
    state: Path
    images: ImageTable
    podman: Podman
    addresses: PodAddresses
    gpus: Gpus
    capacity: Mapping[str, str]
    service_addresses: Callable[[], ServiceAddresses]
    """Where Services are reached now."""
    session: aiohttp.ClientSession
    """For probes."""
    env: Mapping[str, str]
    """The variables that every process gets."""
    drain: Drain
    timings: Timings = Timings()
