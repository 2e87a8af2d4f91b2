"""The bodies of the Node object, its status and its Lease. Pure; `node` writes them."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Any, Final

from modelyard import __version__
from modelyard.core.conditions import transition_time
from modelyard.local.node.pods.pod_status import HOST

if TYPE_CHECKING:
    from modelyard.local.node.hardware import Hardware, Pressure

Json = dict[str, Any]

LEASES: Final = "kube-node-lease"
FEATURES: Final = ("ExtendWebSocketsToKubelet",)
"""Tells the API server to pass on the WebSockets of `kubectl exec` and `port-forward`, and not to make them SPDY."""
_LEASE_SECONDS: Final = 40
_READY: Final = ("True", "KubeletReady", "pods run as processes")


def node(name: str, hardware: Hardware) -> Json:
    """Return the Node object with its labels, without a status."""
    labels = {"kubernetes.io/hostname": name, **hardware.labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def status(name: str, hardware: Hardware, before: Json, now: str, *, port: int, pressure: Pressure) -> Json:
    """Return the status of the Node. Times of unchanged conditions come from `before`; port 0: it has no server."""
    return {
        "capacity": hardware.capacity,
        "allocatable": hardware.allocatable,
        "declaredFeatures": list(FEATURES),
        "conditions": _conditions(before.get("conditions", []), now, pressure),
        "addresses": [{"type": "InternalIP", "address": HOST}, {"type": "Hostname", "address": name}],
        **({"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}} if port else {}),
        "nodeInfo": {
            **dict.fromkeys(("bootID", "machineID", "systemUUID", "kubeProxyVersion"), ""),
            "architecture": hardware.architecture,
            "containerRuntimeVersion": f"modelyard://{__version__}",
            "kernelVersion": platform.release(),
            "kubeletVersion": f"modelyard-{__version__}",
            "operatingSystem": sys.platform,
            "osImage": platform.system(),
        },
    }


def _conditions(before: list[Json], now: str, pressure: Pressure) -> list[Json]:
    old = {entry["type"]: entry for entry in before}
    ours = {"DiskPressure": _disk(pressure.disk), "MemoryPressure": _memory(pressure.memory), "Ready": _READY}
    told = [_condition(name, *words, old.get(name, {}), now) for name, words in ours.items()]
    return [*told, *(entry for name, entry in old.items() if name not in ours)]


def _disk(is_short: bool) -> tuple[str, str, str]:
    return ("True", "DiskIsFull", "free some disk space") if is_short else ("False", "DiskIsFine", "there is space")


def _memory(is_short: bool | None) -> tuple[str, str, str]:
    if is_short is None:
        return "Unknown", "MemoryIsNotMeasured", "this system does not tell how much memory is available"
    if is_short:
        return "True", "MemoryIsShort", "end some programs, or use a smaller model"
    return "False", "MemoryIsFine", "there is memory"


def _condition(name: str, status: str, reason: str, message: str, old: Json, now: str) -> Json:
    return {
        "type": name,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": transition_time(old, status, now),
    }


def lease(name: str, now: str, owner: str) -> Json:
    """Return the Lease that is the heartbeat of the node. It belongs to the Node with the UID `owner`."""
    owners = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner}]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASES, "ownerReferences": owners},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": now},
    }
