"""The condition FieldsIgnored of a Model: fields that are set and have no effect, each with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.conditions import FIELDS_IGNORED, Condition, condition
from modelyard.core.reasons import Reason
from modelyard.core.source import Claim, Local, is_collection, parse
from modelyard.kinds.model import prefetch
from modelyard.kinds.model.api import Accelerator, Format, Gpu, RefreshPolicy
from modelyard.kinds.shared.gpu import AMD, vendor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.gguf import GgufReport
    from modelyard.core.policy import Policy
    from modelyard.core.source import Source
    from modelyard.kinds.model.api import ModelSpec


_ONLY_MACS = "only used on a Mac, with accelerator metal"
_ONLY_PODS = "only used by pods, and accelerator metal means a Mac"
_HOSTS_FETCH = "hosts outside the cluster fetch the weights themselves"
_NOTHING_FETCHED = "nothing is fetched from this source"
_SERVICE_DECIDES = "informational: the resources of the InferenceService count"


def fields_ignored(spec: ModelSpec, policy: Policy, gguf: GgufReport | None) -> Condition:
    """Return the condition FieldsIgnored."""
    found = [f"{field} ({why})" for field, why in (*_hardware(spec), *_fetching(spec, policy), *_notes(spec, gguf))]
    if not found:
        return condition(FIELDS_IGNORED, False, Reason.ALL_FIELDS_USED, "all fields that are set have an effect")
    return condition(FIELDS_IGNORED, True, Reason.FIELD_IGNORED, f"no effect: {', '.join(found)}")


def _hardware(spec: ModelSpec) -> Iterator[tuple[str, str]]:
    hardware, gpu = spec.hardware, spec.hardware.gpu or Gpu()
    if hardware.accelerator is Accelerator.METAL:
        of_pods = {
            "count": gpu.count,
            "resourceName": gpu.resource_name,
            "tolerationKey": gpu.toleration_key,
            "sharding": gpu.sharding,
            "runtime": gpu.runtime,
            "layers": gpu.layers,
        }
        yield from ((f"spec.hardware.gpu.{name}", _ONLY_PODS) for name, value in of_pods.items() if value)
        return
    of_macs = {"memoryBudget": hardware.memory_budget, "memoryFraction": hardware.memory_fraction}
    yield from ((f"spec.hardware.{name}", _ONLY_MACS) for name, value in of_macs.items() if value)
    if gpu.enabled is not None and gpu.enabled != (gpu.count > 0):
        yield "spec.hardware.gpu.enabled", "spec.hardware.gpu.count alone decides how many GPUs a pod gets"
    if gpu.runtime and vendor(hardware) != AMD:
        yield "spec.hardware.gpu.runtime", "only AMD GPUs have a choice"
    elif gpu.runtime == "vulkan":
        yield "spec.hardware.gpu.runtime", "our image for AMD GPUs uses ROCm; set spec.image of the InferenceService"


def _fetching(spec: ModelSpec, policy: Policy) -> Iterator[tuple[str, str]]:
    source = parse(spec.source)
    if spec.hardware.accelerator is Accelerator.METAL:
        yield from _fetched_by_hosts(spec)
        return
    if isinstance(source, Claim | Local) and spec.source_secret_ref:
        yield "spec.sourceSecretRef", _NOTHING_FETCHED
    if isinstance(source, Claim) and spec.refresh_policy is RefreshPolicy.ON_CHANGE:
        yield "spec.refreshPolicy", _NOTHING_FETCHED
    if spec.sha256 and (why := _unverified(spec, source)):
        yield "spec.sha256", why
    obstacle = prefetch.obstacle(spec, policy)
    if spec.prefetch and obstacle:
        yield "spec.prefetch", obstacle
    if spec.prefetch_tolerations and not prefetch.is_wanted(spec, policy):
        yield "spec.prefetchTolerations", obstacle or "spec.prefetch is false"


def _fetched_by_hosts(spec: ModelSpec) -> Iterator[tuple[str, str]]:
    of_pods = {
        "sourceSecretRef": spec.source_secret_ref,
        "sha256": spec.sha256,
        "refreshPolicy": spec.refresh_policy is RefreshPolicy.ON_CHANGE,
        "prefetch": spec.prefetch,
        "prefetchTolerations": spec.prefetch_tolerations,
    }
    yield from ((f"spec.{name}", _HOSTS_FETCH) for name, value in of_pods.items() if value)


def _unverified(spec: ModelSpec, source: Source) -> str:
    if isinstance(source, Claim):
        return _NOTHING_FETCHED
    if is_collection(source) and spec.format is not Format.GGUF:
        return "one hash cannot cover many files; each is compared with the hash that the source reports"
    return ""


def _notes(spec: ModelSpec, gguf: GgufReport | None) -> Iterator[tuple[str, str]]:
    if spec.hardware.gpu and spec.hardware.gpu.memory:
        yield "spec.hardware.gpu.memory", _SERVICE_DECIDES
    if spec.resources and spec.resources.cpu:
        yield "spec.resources.cpu", _SERVICE_DECIDES
    if spec.resources and spec.resources.memory:
        yield "spec.resources.memory", _SERVICE_DECIDES
    if gguf and spec.quantization and gguf.quantization and spec.quantization.upper() != gguf.quantization.upper():
        yield "spec.quantization", f"the file says {gguf.quantization}"
