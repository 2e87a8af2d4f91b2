"""Make the API server pass requests for `metrics.k8s.io` on to the metrics server of this machine.

`machine` calls it at every start: the port may be another one. In a cluster these objects come with metrics-server.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final

from modelyard.core.resources import SERVICE, Resource
from modelyard.local.node.metrics.metrics_server import GROUP, VERSION
from modelyard.local.up.apply import apply
from modelyard.manifests.rbac import NAMESPACE

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.core.objects import Json
    from modelyard.kube.client import Client

NAME: Final = "modelyard-metrics"
SERVER_NAME: Final = f"{NAME}.{NAMESPACE}.svc"
"""The name that the API server expects in the certificate of the metrics server."""
API_SERVICE: Final = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)
_CLUSTER_ROLE: Final = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
_PRIORITY: Final = 100


async def register_metrics(client: Client, port: int, authority: Path) -> None:
    """Apply the Service and the APIService of a metrics server on a port of 127.0.0.1, and the role to ask it.

    `authority` is the file of the authority that has signed its certificate.
    """
    for resource, body in (
        (SERVICE, _service()),
        (API_SERVICE, _api_service(port, authority)),
        (_CLUSTER_ROLE, _role()),
    ):
        await apply(client, resource, body)


def _service() -> Json:
    # The API server dials an ExternalName as it is written. A Service with endpoints may not lead to loopback.
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
    }


def _api_service(port: int, authority: Path) -> Json:
    return {
        "apiVersion": API_SERVICE.api_version,
        "kind": API_SERVICE.kind,
        "metadata": {"name": f"{VERSION}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "service": {"name": NAME, "namespace": NAMESPACE, "port": port},
            "caBundle": b64encode(authority.read_bytes()).decode(),
            "groupPriorityMinimum": _PRIORITY,
            "versionPriority": _PRIORITY,
        },
    }


def _role() -> Json:
    """Return the role that lets users who may see pods also see what these use."""
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    return {
        "apiVersion": _CLUSTER_ROLE.api_version,
        "kind": _CLUSTER_ROLE.kind,
        "metadata": {"name": f"{NAME}-reader", "labels": labels},
        "rules": [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list"]}],
    }
