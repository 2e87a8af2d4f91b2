"""A service whose Model is for Macs: machines outside the cluster serve it, by an InferenceModel behind its Service.

Placement, reservations, EndpointSlices and unloading are those of the InferenceModel, so that both kinds decide over
the memory of hosts in one place. `plan` and `status` call this in place of what is about pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.core.conditions import FIELDS_IGNORED, Condition, Problem, Truth, condition, stored_condition
from modelyard.core.plan import Replicas
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.core.resources import POD, SERVICE
from modelyard.core.source import Claim, redacted
from modelyard.kinds.contract import Owned
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL
from modelyard.kinds.inferenceservice import handover, naming
from modelyard.kinds.inferenceservice.metal_memory import asked_memory
from modelyard.kinds.inferenceservice.phases import PhaseFacts
from modelyard.kinds.model.api import Accelerator
from modelyard.kinds.shared import workloads
from modelyard.kinds.shared.model_volumes import parsed_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Json, Stored
    from modelyard.core.plan import Child, Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
    from modelyard.kinds.model.api import ModelSpec
    from modelyard.kinds.shared.model_references import Reference

MEMORY_PRESSURE: Final = "MemoryPressure"
OPTIONS: Final = {
    "context_size": "contextSize",
    "parallel_slots": "parallelSlots",
    "flash_attention": "flashAttention",
    "jinja": "jinja",
    "cache_type_k": "cacheTypeK",
    "cache_type_v": "cacheTypeV",
    "batch_size": "batchSize",
    "u_batch_size": "uBatchSize",
    "reasoning_budget": "reasoningBudget",
}
"""The fields of a service that are options of its InferenceModel."""
PORT: Final = 8080
DRAIN_SECONDS: Final = 5
"""Until no proxy sends requests to a host that is to unload. The daemon then lets those in flight finish."""
_UNDER_WAY: Final = frozenset({Reason.LOADING, Reason.WAITING_FOR_ANSWER})
_NO_HOST: Final = frozenset({Reason.INSUFFICIENT_HOSTS})
"""That there is no host (yet) is no fault of the service: it waits."""
_MORE_MEMORY: Final = "add a host with more memory, make room on one, or lower spec.contextSize"


def is_for_macs(model: ModelSpec | None) -> bool:
    """Whether a Model runs on machines outside the cluster; None: it does not exist, or does not decode."""
    return model is not None and model.hardware.accelerator is Accelerator.METAL


def source_problem(model: Reference) -> Problem | None:
    """Return why a host outside the cluster cannot have the weights of a Model; None: it can, as far as is known."""
    spec = model.spec
    if spec is None or not is_for_macs(spec):
        return None
    wrong = ""
    if isinstance(parsed_source(spec), Claim):
        wrong = "its weights are in a claim, which a machine outside the cluster cannot mount"
    elif redacted(spec.source) != spec.source:
        wrong = "its source holds a password or a query, and the source is the public id of a model on a host"
    remedy = "write a URL, org/repo or a file of the host in its spec.source; hosts have credentials of their own"
    return Problem(Reason.SOURCE_UNFIT, f"the Model {model.name} cannot be served: {wrong}", remedy) if wrong else None


def child(service: Object[InferenceServiceSpec], model: Reference) -> Child:
    """Return the InferenceModel. Its name is that of the Service, which leads to the hosts that it publishes."""
    assert model.spec, "a Model that is not known is a problem, and then nothing is planned"
    spec, name = service.spec, service.meta.name
    body = {
        "model": model.spec.source,
        "port": spec.endpoint.port if spec.endpoint else PORT,
        "priority": spec.priority,
        "evictionProtection": bool(spec.eviction_protection),
        "aliases": list(dict.fromkeys((name, str(service.key), spec.model_ref))),
        "hostSelector": {"matchLabels": dict(spec.node_selector)},
        "options": _options(spec),
        "placement": {"drainSeconds": DRAIN_SECONDS},
        **_memory(spec, model),
    }
    labels = naming.pod_labels(service)
    replicas = Replicas(spec.replicas, fixed=True)
    return workloads.child(INFERENCE_MODEL, naming.service_name(name), labels, {"spec": body}, replicas)


def facts(service: Object[InferenceServiceSpec], seen: Seen, model: Problem | None, outcome: Outcome) -> PhaseFacts:
    """Return the facts that decide the phase, from the InferenceModel; `model` is why the Model cannot be served."""
    hosted = seen.one(Owned(INFERENCE_MODEL))
    wanted, status = service.spec.replicas, hosted.status if hosted else {}
    is_current = hosted is not None and int(status.get("observedGeneration", 0)) >= hosted.meta.generation
    ready = handover.current_ready(hosted) if hosted else {}
    is_complete = ready.get("status") == Truth.TRUE and wanted > 0
    return PhaseFacts(
        model=model,
        obstacle=None if model else outcome.problem,
        trouble=(_trouble(ready) or workloads.service_problem(seen.one(Owned(SERVICE)))) if wanted else None,
        outside_cluster=True,
        # What has not reported yet is no reason to call for a host: there may be one.
        loading=ready.get("reason") in _UNDER_WAY or (hosted is not None and not is_current),
        scale_applied=wanted == 0 and (is_current or not status),
        wanted=wanted,
        ready=int(status.get("readyReplicas", 0)),
        of_before=handover.ready_pods(seen),
        pods_left=hosts_left(hosted) + len(seen.all(Owned(POD))),
        remark=str(ready.get("message", "")) if wanted and not is_complete else "",
        complete=is_complete,
    )


def hosts_left(hosted: Stored | None) -> int:
    """Return on how many hosts an InferenceModel has something; None: it does not exist."""
    status = hosted.status if hosted else {}
    return int(status.get("replicas", 0)) + len(status.get("pendingUnloads") or ())


def memory_pressure(before: Json, hosted: Stored | None) -> tuple[Condition, ...]:
    """Return the condition MemoryPressure of the InferenceModel; empty: there was never any."""
    told = stored_condition(hosted.status, MEMORY_PRESSURE) if hosted else {}
    if told:
        return (condition(MEMORY_PRESSURE, True, Reason(told["reason"]), str(told["message"])),)
    if not stored_condition(before, MEMORY_PRESSURE):
        return ()
    return (condition(MEMORY_PRESSURE, False, Reason.NORMAL, "no host of the model is short of memory"),)


def ignored(hosted: Stored | None) -> Iterator[Problem]:
    """Yield a problem if hosts serve without an option of the spec, in the words of the InferenceModel."""
    told = stored_condition(hosted.status, FIELDS_IGNORED) if hosted else {}
    if told:
        wrong, _, _ = str(told["message"]).rpartition("; ")
        yield Problem(Reason.FIELD_IGNORED, wrong, "remove the field, or choose other hosts with spec.nodeSelector")


def _options(spec: InferenceServiceSpec) -> dict[str, Any]:
    asked = {name: getattr(spec, field) for field, name in OPTIONS.items()}
    return {name: value for name, value in asked.items() if value is not None and value is not False}


def _memory(spec: InferenceServiceSpec, model: Reference) -> dict[str, Any]:
    assert model.spec, "asked for by `child` only"
    memory, share = asked_memory(spec, model), model.spec.hardware.memory_fraction
    return {**({"memory": memory} if memory else {}), **({"memoryFraction": max(share, 0.01)} if share else {})}


def _trouble(ready: Json) -> Problem | None:
    """Return what keeps hosts from serving, in the words of the InferenceModel; None: they do, or are on their way."""
    reason = ready.get("reason", "")
    if ready.get("status") == Truth.TRUE or reason not in PROBLEMS - _NO_HOST:
        return None
    message, _, remedy = str(ready.get("message", "")).rpartition("; ")
    # What the InferenceModel advises about memory is a field that the service does not have.
    return Problem(Reason(reason), message, _MORE_MEMORY if reason == Reason.INSUFFICIENT_MEMORY else remedy)
