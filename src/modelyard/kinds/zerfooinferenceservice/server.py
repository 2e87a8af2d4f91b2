"""The server of one track: which model it serves, whether it can, and the pod that runs it.

Zerfoo knows models by references of its own and fetches them itself. With any other runtime the model is a Model of the
namespace, and the pod is built as that of an InferenceService, which is what `server_spec` writes down.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.core.quantities import quantity
from modelyard.core.reasons import Reason
from modelyard.engines import ENGINES
from modelyard.engines.contract import Place
from modelyard.engines.zerfoo import ZerfooOptions
from modelyard.kinds.contract import Named, Object
from modelyard.kinds.inferenceservice.api import InferenceServiceSpec, ProbeOverrides, Resources
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.model.api import Accelerator, Hardware
from modelyard.kinds.shared import gpu, model_references, model_volumes
from modelyard.kinds.shared.model_volumes import Storage
from modelyard.kinds.shared.resolved_pod import ResolvedPod, resolve_pod
from modelyard.kinds.zerfooinferenceservice.api import ZERFOO, in_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Read, Seen
    from modelyard.kinds.zerfooinferenceservice.api import HealthCheck, ZerfooInferenceServiceSpec

Json = dict[str, Any]

STARTUP_SECONDS: Final = 1800
"""How long a server may take to fetch and load its model before it is started again."""


class Served(Struct, frozen=True):
    """A model that a field of the spec names."""

    track: str
    model: str
    field: str


class Server(Struct, frozen=True):
    """The server of one track."""

    served: Served
    spec: InferenceServiceSpec
    """What it would be as an InferenceService."""
    problem: Problem | None = None
    """Why its model cannot be served (yet); None: it can."""
    pod: ResolvedPod | None = None
    """The resolved pod; None: there is a problem."""


def reads(spec: ZerfooInferenceServiceSpec, served: Served, seen: Seen) -> Iterator[Read]:
    """Name the Model of a track, its claim and its Secret; nothing, if Zerfoo fetches the model itself."""
    if spec.runtime == ZERFOO:
        return
    yield Named(MODEL, served.model)
    if found := model_references.look_up(served.model, served.field, seen).spec:
        yield from model_volumes.reads(found)


def resolve_server(service: Object[ZerfooInferenceServiceSpec], served: Served, seen: Seen) -> Server:
    """Return the server of one track."""
    spec = server_spec(service, served.model)
    if service.spec.runtime == ZERFOO:
        return Server(served, spec, pod=_zerfoo_pod(spec, seen.policy))
    reference = model_references.look_up(served.model, served.field, seen)
    problem = model_references.find_problem(spec, (reference,), seen) or _on_a_mac(reference)
    as_service = Object(service.meta, spec, {})
    return Server(served, spec, problem, None if problem else resolve_pod(as_service, reference, None, seen.policy))


def server_spec(service: Object[ZerfooInferenceServiceSpec], model: str) -> InferenceServiceSpec:
    """Return what a server would be as an InferenceService. For the builder of pods, Zerfoo is `generic`."""
    spec = service.spec
    asked = spec.resources
    is_own = spec.runtime == "zerfoo"
    return InferenceServiceSpec(
        model_ref=model,
        runtime="generic" if spec.runtime == "zerfoo" else spec.runtime,
        resources=Resources(
            gpu=1 if asked.gpu_memory and quantity(asked.gpu_memory) > 0 else 0,
            gpu_memory=asked.gpu_memory,
            cpu=asked.cpu,
            memory=asked.memory,
        ),
        # vLLM answers 404 to any other name than that of its model, and the tracks have different ones.
        extra_args=("--served-model-name", service.meta.name) if spec.runtime == "vllm" else (),
        probe_overrides=probes(spec.health_check),
        security_context={"readOnlyRootFilesystem": True} if is_own else None,
    )


def probes(check: HealthCheck) -> ProbeOverrides:
    """Return the probes. The liveness probe is the slowest: a server that is only busy must not be started again."""
    interval = _whole_seconds(check.interval)
    timing = {"timeoutSeconds": _whole_seconds(check.timeout)}
    asked: Json = {"httpGet": {"path": check.path, "port": "http"}, **timing}
    return ProbeOverrides(
        startup={**asked, "periodSeconds": interval, "failureThreshold": ceil(STARTUP_SECONDS / interval)},
        liveness={**asked, "periodSeconds": 3 * interval, "failureThreshold": 3},
        readiness={**asked, "periodSeconds": interval, "failureThreshold": 3},
    )


def _whole_seconds(duration: int | str) -> int:
    # Never 0, which Kubernetes takes for "not set".
    return max(1, ceil(in_seconds(duration)))


def _zerfoo_pod(spec: InferenceServiceSpec, policy: Policy) -> ResolvedPod:
    engine, hardware = ENGINES[ZERFOO], Hardware()
    devices = gpu.devices(hardware, spec.resources.gpu or 0, policy)
    gpus = gpu.engine_gpus(hardware, devices)
    return ResolvedPod(
        engine=engine,
        image=policy.images.get(engine.name) or engine.image(gpus),
        known_image=True,
        port=engine.port,
        devices=devices,
        storage=Storage(),
        launch=engine.launch(ZerfooOptions(), Place(spec.model_ref, engine.port, gpus=gpus)),
    )


def _on_a_mac(reference: model_references.Reference) -> Problem | None:
    """Return a problem if the Model is for a Mac outside the cluster, where there are no pods; None: it is not."""
    if reference.spec is None or reference.spec.hardware.accelerator is not Accelerator.METAL:
        return None
    return Problem(
        Reason.SOURCE_UNFIT,
        f"the Model {reference.name} named by {reference.field} runs on a Mac, and this kind needs pods",
        "serve it with an InferenceService, or name another Model",
    )
