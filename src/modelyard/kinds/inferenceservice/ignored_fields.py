"""The conditions about fields of a service that have no effect, or not the expected one. It serves all the same.

No field is ignored in silence: FieldsIgnored, VLLMSpecValid and MemoryRequested name what the engine cannot do, what
belongs to another engine, and what is missing to make a field work.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from modelyard.core.conditions import FIELDS_IGNORED, Condition, Problem, condition
from modelyard.core.reasons import Reason
from modelyard.core.words import join_words
from modelyard.engines import ENGINES, honoured, peculiar
from modelyard.engines.flags import value_of
from modelyard.kinds.inferenceservice import metal
from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
from modelyard.kinds.model.api import Accelerator, Gpu
from modelyard.kinds.shared import gpu, model_cache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.core.objects import Stored
    from modelyard.kinds.inferenceservice.decide import ServiceDecision
    from modelyard.kinds.model.api import Hardware
    from modelyard.kinds.shared.resolved_pod import ResolvedPod

VLLM_SPEC_VALID = "VLLMSpecValid"
MEMORY_REQUESTED = "MemoryRequested"

_ON_HOSTS = frozenset(
    (
        "model_ref",
        "replicas",
        "endpoint",
        "priority",
        "node_selector",
        "eviction_protection",
        *metal.OPTIONS,
    )
)
"""What is passed on to hosts outside the cluster."""
_ON_GPUS = (Accelerator.CUDA, Accelerator.ROCM, Accelerator.INTEL)
_UNSET = InferenceServiceSpec(model_ref="")
_NAMES = dict(zip(InferenceServiceSpec.__struct_fields__, InferenceServiceSpec.__struct_encode_fields__, strict=True))


def conditions(
    spec: InferenceServiceSpec, decision: ServiceDecision, hosted: Stored | None = None
) -> tuple[Condition, ...]:
    """Return the conditions about fields without effect; `hosted` is the InferenceModel, if there is one."""
    if decision.on_hosts:
        return (_fields_ignored([*_of_pods(spec), *metal.ignored(hosted)]),)
    model, resolved = decision.model.spec, decision.pod
    warned = resolved.launch.warnings if resolved else ()
    ignored = [
        *_ignored(spec, resolved),
        *(_unused_model_fields(spec, resolved.devices, model.hardware) if resolved and model else ()),
    ]
    if spec.runtime != "vllm":
        return (_fields_ignored([*ignored, *warned]), *_memory_requested(spec))
    return (_fields_ignored(ignored), *_memory_requested(spec), *([_vllm_valid(warned)] if resolved else []))


def _of_pods(spec: InferenceServiceSpec) -> Iterator[Problem]:
    """Yield a problem if fields are set that hosts outside the cluster do not use."""
    fields = [f"spec.{_NAMES[name]}" for name in _NAMES if name not in _ON_HOSTS and _is_set(spec, name)]
    if fields:
        named = join_words(sorted(fields))
        verb = "have" if len(fields) > 1 else "has"
        yield _no_effect(f"{named} {verb} no effect on hosts outside the cluster", "remove what has no effect")


def _fields_ignored(found: Iterable[Problem]) -> Condition:
    message = ". ".join(problem.text for problem in found)
    if not message:
        return condition(FIELDS_IGNORED, False, Reason.ALL_FIELDS_USED, "all fields that are set have an effect")
    return condition(FIELDS_IGNORED, True, Reason.FIELD_IGNORED, message)


def _vllm_valid(warned: tuple[Problem, ...]) -> Condition:
    if not warned:
        return condition(VLLM_SPEC_VALID, True, Reason.CONFIG_VALID, "all of spec.vllmConfig is passed to vLLM")
    return condition(VLLM_SPEC_VALID, False, warned[0].reason, ". ".join(problem.text for problem in warned))


def _memory_requested(spec: InferenceServiceSpec) -> Iterator[Condition]:
    asked = {"moeCPUOffload": spec.moe_cpu_offload, "noKvOffload": spec.no_kv_offload}
    fields = join_words([f"spec.{name}" for name, value in asked.items() if value])
    if not fields or spec.resources.memory or spec.resources.host_memory:
        return
    problem = Problem(
        Reason.MISSING_MEMORY_REQUEST,
        f"{fields} needs node memory that is not requested, so the pod may be killed",
        "set spec.resources.hostMemory",
    )
    yield condition(MEMORY_REQUESTED, False, problem.reason, problem.text)


def _ignored(spec: InferenceServiceSpec, resolved: ResolvedPod | None) -> Iterator[Problem]:
    yield from _foreign_fields(spec)
    if spec.eviction_protection:
        yield _no_effect(
            "spec.evictionProtection has no effect: it is for Models with hardware.accelerator metal", "remove it"
        )
    if resolved and spec.resources.gpu is not None and spec.resources.gpu != resolved.devices.count:
        yield _no_effect(
            f"spec.resources.gpu has no effect, because hardware.gpu.count of the Model is {resolved.devices.count}",
            "remove one of the two",
        )
    if resolved and spec.resources.gpu_memory:
        yield from _gpu_memory(resolved.devices)
    if resolved:
        yield from _moved_port(spec, resolved.port)
        yield from model_cache.ignored(spec, resolved.storage)
    yield from _overridden(spec)
    yield from _metrics(spec)


def _moved_port(spec: InferenceServiceSpec, port: int) -> Iterator[Problem]:
    """Yield a problem if `extraArgs` move the server to a port that its probes and its Service do not use."""
    # The short one is of Text Generation Inference; in llama.cpp it is a prompt.
    spellings = ("--port", "-p") if spec.runtime == "tgi" else ("--port",)
    asked = value_of(tuple(spec.extra_args), *spellings)
    if "extra_args" in honoured(ENGINES[spec.runtime]) and asked not in ("", str(port)):
        yield Problem(
            Reason.FIELD_IGNORED,
            f"spec.extraArgs moves the server to port {asked}, but its probes and its Service use {port}",
            "set spec.containerPort instead",
        )


def _overridden(spec: InferenceServiceSpec) -> Iterator[Problem]:
    """Yield a problem for each field that another one overrides."""
    amounts, either = spec.resources, "remove one of the two"
    if amounts.memory and amounts.host_memory and amounts.memory != amounts.host_memory:
        yield _no_effect("spec.resources.memory has no effect beside spec.resources.hostMemory", either)
    if spec.priority_class_name and spec.priority != _UNSET.priority:
        yield _no_effect("spec.priority has no effect beside spec.priorityClassName", either)
    if spec.runtime == "llamacpp" and spec.cache_type_k and spec.cache_type_custom_k:
        yield _no_effect("spec.cacheTypeK has no effect beside spec.cacheTypeCustomK", either)
    if spec.runtime == "llamacpp" and spec.cache_type_v and spec.cache_type_custom_v:
        yield _no_effect("spec.cacheTypeV has no effect beside spec.cacheTypeCustomV", either)


def _foreign_fields(spec: InferenceServiceSpec) -> Iterator[Problem]:
    foreign = [
        (join_words(sorted(engines)), f"spec.{_NAMES[name]}")
        for name, engines in peculiar().items()
        if spec.runtime not in engines and _is_set(spec, name)
    ]
    for engines, fields in groupby(sorted(foreign), key=lambda pair: pair[0]):
        named = join_words([field for _, field in fields])
        yield _no_effect(
            f"only {engines} can use {named}, but spec.runtime is {spec.runtime}",
            "remove what has no effect, or choose another runtime",
        )


def _is_set(spec: InferenceServiceSpec, name: str) -> bool:
    value = getattr(spec, name)
    return value is not False and value != getattr(_UNSET, name)


def _gpu_memory(devices: gpu.Devices) -> Iterator[Problem]:
    if not devices.count:
        yield _no_effect(
            "spec.resources.gpuMemory has no effect without GPUs",
            "set spec.resources.gpu, or hardware.gpu.count of the Model",
        )
    elif devices.vendor != gpu.NVIDIA:
        yield _no_effect(
            f"spec.resources.gpuMemory has no effect on {devices.vendor} GPUs: no node label has their memory",
            "choose nodes with spec.nodeSelector",
        )


def _unused_model_fields(spec: InferenceServiceSpec, devices: gpu.Devices, hardware: Hardware) -> Iterator[Problem]:
    """Yield a problem for each GPU field of the Model without effect. A RuntimeClass may bring GPUs by itself."""
    if hardware.accelerator in _ON_GPUS and not devices.count and not spec.runtime_class_name:
        yield _no_effect(
            f"hardware.accelerator of the Model is {hardware.accelerator}, but the pod requests no GPU and runs on "
            "the CPU",
            "set spec.resources.gpu, or hardware.gpu.count of the Model",
        )
    asked = hardware.gpu or Gpu()
    split = asked.sharding.layer_split if asked.sharding else ()
    if spec.runtime != "llamacpp" and (asked.layers > 0 or split):
        yield _no_effect(
            "only llamacpp can use hardware.gpu.layers and hardware.gpu.sharding.layerSplit of the Model, but "
            f"spec.runtime is {spec.runtime}",
            "remove them from the Model, or choose another runtime",
        )


def _metrics(spec: InferenceServiceSpec) -> Iterator[Problem]:
    amounts = spec.resources
    requested = {"cpu": amounts.cpu, "memory": amounts.host_memory or amounts.memory}
    for metric in spec.autoscaling.metrics if spec.autoscaling else ():
        if metric.type == "Resource" and not requested.get(metric.name):
            yield _no_effect(
                f"the metric {metric.name} of spec.autoscaling needs a request",
                f"set spec.resources.{metric.name}",
            )
        unused = metric.target_average_value if metric.type == "Resource" else metric.target_average_utilization
        if unused:
            field = "targetAverageValue" if metric.type == "Resource" else "targetAverageUtilization"
            yield _no_effect(
                f"{field} of the metric {metric.name} has no effect for the type {metric.type}", "remove it"
            )


def _no_effect(message: str, remedy: str) -> Problem:
    return Problem(Reason.FIELD_IGNORED, message, remedy)
