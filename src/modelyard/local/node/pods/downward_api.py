"""The downward API: fields of a pod, and requests and limits of its containers, as variables and files show them.

Pure. `environment` and `volumes` call it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core.objects import Metadata
from modelyard.core.quantities import quantity
from modelyard.local.node.pods.config_sources import ConfigMissing
from modelyard.local.node.pods.pod_status import HOST
from modelyard.local.node.podspec import PodSpec

if TYPE_CHECKING:
    from fractions import Fraction

    from modelyard.local.node.podspec import Container, ResourceRef

_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")


class PodContext(Struct, frozen=True):
    """A pod as the downward API shows it to its own containers."""

    meta: Metadata
    spec: PodSpec
    ip: str
    """The address on which the processes of the pod listen, which `status.podIP` is in a process."""
    capacity: Mapping[str, str]
    """The capacity of the machine: the limit of a container that has none of its own."""


def read_field(pod: PodContext, path: str) -> str:
    """Return the value of a `fieldRef`; ConfigMissing when it is not a field that pods can read."""
    meta, spec = pod.meta, pod.spec
    if keyed := _KEYED.fullmatch(path):
        return ((meta.labels if keyed[1] == "labels" else meta.annotations) or {}).get(keyed[2], "")
    known = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "metadata.labels": _lines(meta.labels),
        "metadata.annotations": _lines(meta.annotations),
        "spec.nodeName": spec.node_name,
        "spec.serviceAccountName": spec.service_account_name,
        "status.hostIP": HOST,
        "status.hostIPs": HOST,
        "status.podIP": pod.ip,
        "status.podIPs": pod.ip,
    }
    if path not in known:
        raise ConfigMissing(f"fieldRef {path} is not a field that a pod can read")
    return known[path]


def read_resource(pod: PodContext, container: Container, ref: ResourceRef) -> str:
    """Return the value of a `resourceFieldRef`: a request or limit in units of its divisor, rounded up."""
    named = {each.name: each for each in (*pod.spec.init_containers, *pod.spec.containers)}
    side, _, resource = ref.resource.partition(".")
    resources = named.get(ref.container_name, container).resources
    stated = (resources.limits if side == "limits" else resources.requests).get(resource)
    if stated is None and side == "limits":
        stated = pod.capacity.get(resource)
    divisor = quantity(ref.divisor) or quantity(1)
    return str(math.ceil(quantity(stated or 0) / divisor))


def memory_limit(container: Container) -> int | None:
    """Return the memory limit of a container in bytes; None: it has no limit, which 0 means as well."""
    return int(quantity(container.resources.limits.get("memory", 0))) or None


def gpu_count(container: Container, resource: str) -> int:
    """Return how many GPUs a container has as its limit of this resource; 0: none."""
    count: Fraction = quantity(container.resources.limits.get(resource, 0))
    return int(count)


def _lines(values: Mapping[str, str] | None) -> str:
    escaped = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in (values or {}).items()}
    return "\n".join(f'{name}="{value}"' for name, value in sorted(escaped.items()))
