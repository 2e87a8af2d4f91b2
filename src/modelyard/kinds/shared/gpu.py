"""GPUs of a pod: how many, under which resource name, and on which nodes.

A GPU is asked for whole, as an extended resource. Who advertises that resource is the business of the cluster's device
plugins.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from modelyard.core.quantities import quantity
from modelyard.engines.contract import Gpus
from modelyard.kinds.model.api import Accelerator, Gpu, Sharding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.policy import Policy
    from modelyard.kinds.model.api import Hardware

Json = dict[str, Any]

NVIDIA, AMD, INTEL = "nvidia", "amd", "intel"
MEMORY_LABEL = "nvidia.com/gpu.memory"
"""What NVIDIA's feature discovery writes on nodes: the memory of one GPU in MiB."""

_AS_SOLD = Fraction(10**9, 2**30)
"""A card tells less memory than it is sold with (T4: 15360 MiB, L4: 23034). Who asks for 16Gi means a card of 16 GB."""

_BY_ACCELERATOR = {Accelerator.ROCM: AMD, Accelerator.INTEL: INTEL}


class Devices(Struct, frozen=True):
    """The GPUs that one pod asks for."""

    count: int
    vendor: str
    resource: str
    taint: str
    """The key of the taint that keeps other pods off their nodes."""


def devices(hardware: Hardware, asked: int, policy: Policy) -> Devices:
    """Return what a pod asks for. The Model knows best how many its weights are split for; then the service does."""
    gpu = hardware.gpu or Gpu()
    resource = resource_name(hardware, policy)
    return Devices(
        count=gpu.count or asked, vendor=vendor(hardware), resource=resource, taint=gpu.toleration_key or resource
    )


def vendor(hardware: Hardware) -> str:
    """Return who makes the GPUs. The accelerator wins: the vendor is nvidia as soon as nobody names one."""
    return _BY_ACCELERATOR.get(hardware.accelerator) or (hardware.gpu or Gpu()).vendor


def resource_name(hardware: Hardware, policy: Policy) -> str:
    """Return under which name nodes advertise such GPUs."""
    named = hardware.gpu and hardware.gpu.resource_name
    by_vendor = {NVIDIA: "nvidia.com/gpu", AMD: "amd.com/gpu", INTEL: policy.intel_gpu_resource}
    return named or by_vendor[vendor(hardware)]


def engine_gpus(hardware: Hardware, found: Devices) -> Gpus:
    """Return what an engine needs to know: how many there are, and how the model is spread over them."""
    gpu = hardware.gpu or Gpu()
    sharding = gpu.sharding or Sharding()
    return Gpus(
        count=found.count,
        vendor=found.vendor,
        layers=gpu.layers,
        strategy=sharding.strategy,
        layer_split=sharding.layer_split,
    )


def tolerations(found: Devices, own: Iterable[Json]) -> list[Json]:
    """Return the taints that a pod tolerates: that of GPU nodes, then the user's own."""
    taint = {"key": found.taint, "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    return [*([taint] if found.count else []), *own]


def memory_affinity(found: Devices, memory: str | None) -> Json:
    """Return the affinity to nodes whose GPUs have enough memory together, or that do not say how much they have.

    Two terms, of which one must hold: a cluster that labels no nodes still schedules.
    """
    if not memory or not found.count or found.vendor != NVIDIA:
        return {}
    least = ceil(quantity(memory) * _AS_SOLD / found.count / 2**20)
    if not least:
        return {}
    enough = {"key": MEMORY_LABEL, "operator": "Gt", "values": [str(least - 1)]}
    unknown = {"key": MEMORY_LABEL, "operator": "DoesNotExist"}
    terms = [{"matchExpressions": [expression]} for expression in (enough, unknown)]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
