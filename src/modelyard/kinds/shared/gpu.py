"""GPUs of a pod: how many, under which extended resource, with which tolerations and node affinity.

A GPU is requested whole, as an extended resource that the device plugins of the cluster advertise.
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
"""Set on nodes by NVIDIA's GPU feature discovery: the memory of one GPU in MiB."""

_AS_SOLD = Fraction(10**9, 2**30)
"""A card reports less memory than it is sold with (T4: 15360 MiB, L4: 23034). With 16Gi users mean a 16 GB card."""

_BY_ACCELERATOR = {Accelerator.ROCM: AMD, Accelerator.INTEL: INTEL}


class Devices(Struct, frozen=True):
    """The GPUs that one pod requests."""

    count: int
    vendor: str
    resource: str
    taint: str
    """The key of the taint on GPU nodes that pods have to tolerate."""


def devices(hardware: Hardware, asked: int, policy: Policy) -> Devices:
    """Return the GPUs of a pod. The count of the Model wins over that of the service: its weights are split for it."""
    gpu = hardware.gpu or Gpu()
    resource = resource_name(hardware, policy)
    return Devices(
        count=gpu.count or asked, vendor=vendor(hardware), resource=resource, taint=gpu.toleration_key or resource
    )


def vendor(hardware: Hardware) -> str:
    """Return the vendor of the GPUs. The accelerator wins over `gpu.vendor`, whose default is nvidia."""
    return _BY_ACCELERATOR.get(hardware.accelerator) or (hardware.gpu or Gpu()).vendor


def resource_name(hardware: Hardware, policy: Policy) -> str:
    """Return the extended resource of such GPUs."""
    named = hardware.gpu and hardware.gpu.resource_name
    by_vendor = {NVIDIA: "nvidia.com/gpu", AMD: "amd.com/gpu", INTEL: policy.intel_gpu_resource}
    return named or by_vendor[vendor(hardware)]


def engine_gpus(hardware: Hardware, found: Devices) -> Gpus:
    """Return the GPUs as an engine sees them: how many, and how the model is sharded over them."""
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
    """Return the tolerations of a pod: that of GPU nodes if it has GPUs, then the user's own."""
    taint = {"key": found.taint, "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    return [*([taint] if found.count else []), *own]


def memory_affinity(found: Devices, memory: str | None) -> Json:
    """Return the node affinity to GPUs with enough memory in total, or to nodes without the label; empty: any node.

    Two terms, of which one must match: otherwise no pod would be scheduled in a cluster that labels no nodes.
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
