"""Kubernetes resources, and the address of one object: group, version and plural; namespace and name; UID."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct


class Key(NamedTuple):
    """Namespace and name of an object. The namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Resource(Struct, frozen=True):
    """One resource of the API server, with what the runtime has to know about reading it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    scalable: bool = False
    status_kept: tuple[str, ...] | None = None
    """The status fields that caches keep; None: all of them."""
    optional: bool = False
    """Whether a cluster may lack its definition. Kinds that read it work all the same: see `Seen.serves`."""
    by_name: bool = False
    """Whether objects that users name are read by GET and never listed or watched: there may be thousands of them that
    are none of our business, and some are secret."""

    @property
    def api_version(self) -> str:
        """The `apiVersion` of manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def label(self) -> str:
        """The name in logs, metrics and kubectl, such as `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection (no name), of an object, or of its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (f"{root}{scope}/{self.plural}", name, subresource) if part)


class Ref(Struct, frozen=True):
    """Exactly one object: the UID tells it from a later one of the same name."""

    resource: Resource
    key: Key
    uid: str


DEPLOYMENT = Resource("apps", "v1", "Deployment", "deployments", scalable=True)
SERVICE = Resource("", "v1", "Service", "services")
ENDPOINT_SLICE = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
# The forerunner of EndpointSlices: its controller copies an object of it into slices of the Service of its name.
ENDPOINTS = Resource("", "v1", "Endpoints", "endpoints", by_name=True)
NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
POD = Resource("", "v1", "Pod", "pods")
SECRET = Resource("", "v1", "Secret", "secrets", by_name=True)
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps", by_name=True)
SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
INGRESS = Resource("networking.k8s.io", "v1", "Ingress", "ingresses")
API_GATEWAY = Resource("gateway.networking.k8s.io", "v1", "Gateway", "gateways", optional=True)
AUTOSCALER = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
JOB = Resource("batch", "v1", "Job", "jobs")
VOLUME_CLAIM = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
# The status of a node lists every image on it, which is most of its size.
NODE = Resource("", "v1", "Node", "nodes", namespaced=False, status_kept=("capacity",))
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
EVENT = Resource("events.k8s.io", "v1", "Event", "events")
