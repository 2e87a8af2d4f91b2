"""What all pods of a node share: clients, tables and settings. `node` makes it; the workers of pods read it."""

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
"""Takes a pod out of the proxy, and waits until all its callers have their answers."""


async def no_drain(pod: PodAddress) -> None:
    """Return at once: this node has no proxy that sends callers to pods."""


class Timings(Struct, frozen=True):
    """Intervals and limits of a node, in seconds."""

    lease: float = 10.0
    """Between two renewals of the Lease of the node."""
    volumes: float = 2.0
    """Between two reads of the Secrets and ConfigMaps that volumes are copies of. A kubelet takes a minute, for many
    nodes would ask at once; here there is one, and a person who waits for new weights of a canary."""
    after_bug: float = 5.0
    """Before a pod gets a new worker, after a bug ended the first."""
    starting: float = 20.0
    """For which a startup probe may fail before that is told."""
    listeners: float = 1.0
    """Between two looks for containers that listen beyond loopback."""
    lock: float = 20.0
    """To wait for the lock of the state folder, until an earlier node has ended."""


class NodeContext(Struct, frozen=True):
    """The API server, the machine and the proxy, as the workers of pods need them."""

    client: Client
    state: Path
    images: ImageTable
    podman: Podman
    addresses: PodAddresses
    gpus: Gpus
    capacity: Mapping[str, str]
    service_addresses: Callable[[], ServiceAddresses]
    """Returns where Services are reached now."""
    session: aiohttp.ClientSession
    """For HTTP probes and hooks."""
    env: Mapping[str, str]
    """The environment variables that every process gets."""
    drain: Drain
    timings: Timings = Timings()
