"""References to objects of the same namespace that serve a model, in place of a URL: the field `serviceRef`.

Pure. A kind puts `ServiceRef` into its spec, names `reads` of it, and asks `resolve_service` in plan and status. The
counterpart in Kubernetes is the `backendRefs` of an HTTPRoute; here the name of the model comes with the address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from modelyard.core import names
from modelyard.core.conditions import Problem, Truth, stored_condition
from modelyard.core.pod_fields import ObjectName
from modelyard.core.reasons import Reason
from modelyard.kinds.contract import Named
from modelyard.kinds.inferencemodel.api import PORT as INFERENCE_MODEL_PORT
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL
from modelyard.kinds.inferenceservice.api import RESOURCE as INFERENCE_SERVICE
from modelyard.kinds.modeldeployment.api import RESOURCE as MODEL_DEPLOYMENT
from modelyard.kinds.shared.door_models import VLLM, DoorModel, deployment_names, door_model
from modelyard.kinds.zerfooinferenceservice.api import PORT as ZERFOO_PORT
from modelyard.kinds.zerfooinferenceservice.api import RESOURCE as ZERFOO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Key, Resource
    from modelyard.kinds.contract import Seen

SERVICE_PORT: Final = 8080
"""The port of the Service of an InferenceService that names none."""


class ServiceRef(Struct, frozen=True, rename="camel"):
    """An object of the same namespace that serves a model."""

    name: Annotated[ObjectName, Meta(description="Its name.", min_length=1)]
    kind: Annotated[
        Literal["InferenceService", "InferenceModel", "ModelDeployment", "ZerfooInferenceService"],
        Meta(description="Its kind."),
    ] = "InferenceService"


class ServedModel(Struct, frozen=True):
    """A model and where it is served, as the status of the object that serves it tells."""

    url: str
    """The base URL of OpenAI's API inside the cluster, such as `http://chat.default.svc.cluster.local:8080/v1`; empty:
    it has no address yet."""
    model: str
    """A name under which its server takes requests for the model."""
    ready: bool
    """Whether pods or hosts answer."""
    takes_own_name: bool = True
    """Whether its server takes the name of the object, too."""


class ResolvedService(Struct, frozen=True):
    """What a reference leads to: a model, or a problem, or both while no pod answers yet."""

    served: ServedModel | None
    """None: there is no such object, it has no address yet, or it cannot be used."""
    problem: Problem | None
    """Why it does not answer (yet); None: it does."""


def _of_inference_service(stored: Stored) -> ServedModel | None:
    known, status = door_model(stored), stored.status
    if known is None:
        return None
    origin = _origin(str(status.get("endpoint", ""))) or _expected_origin(stored)
    name = known.service.name if known.takes_own_name else known.aliases[0]
    return ServedModel(f"{origin}{known.path}", name, _holds(stored, "Available"), known.takes_own_name)


def _of_inference_model(stored: Stored) -> ServedModel:
    host = names.service_host(stored.meta.name, stored.meta.namespace)
    url = f"http://{host}:{stored.spec.get('port', INFERENCE_MODEL_PORT)}/v1"
    answers = int(stored.status.get("readyReplicas", 0)) > 0
    # A host serves many models, and knows each by its id alone.
    return ServedModel(url, str(stored.spec["model"]), answers, takes_own_name=False)


def _of_model_deployment(stored: Stored) -> ServedModel:
    origin, taken = _origin(str(stored.status.get("endpoint", ""))), _taken_names(stored)
    url, is_own = f"{origin}/v1" if origin else "", stored.meta.name in taken
    return ServedModel(url, taken[0], _holds(stored, "Available"), takes_own_name=is_own)


def _taken_names(stored: Stored) -> tuple[str, ...]:
    """Return the names that the server of a ModelDeployment takes.

    While other weights are fetched, those are not the names of the spec.
    """
    if served := stored.status.get("servedNames"):
        return tuple(served)
    spec = stored.spec
    words = spec.get("args") or ()
    return deployment_names(str(spec.get("engine", VLLM)), words, str(spec["modelName"]), stored.meta.name)


def _of_zerfoo(stored: Stored) -> ServedModel:
    host = names.service_host(f"{stored.meta.name}-svc", stored.meta.namespace)
    # Of vLLM each track is told the name of the object, because their models have different ones.
    name = stored.meta.name if stored.spec.get("runtime") == VLLM else _primary_model(stored)
    # Not by PrimaryReady: while pods are replaced, some answer all the same.
    answers = any(track.get("readyReplicas") and track.get("effectiveWeight") for track in _tracks(stored))
    return ServedModel(f"http://{host}:{ZERFOO_PORT}/v1", name, answers)


def _primary_model(stored: Stored) -> str:
    """Return the model of the primary. After a promotion it is not the one that the spec names."""
    told = (track.get("model") for track in _tracks(stored) if track.get("name") == "primary")
    return str(next(told, None) or stored.spec["modelRef"])


def _tracks(stored: Stored) -> Sequence[dict[str, Any]]:
    return stored.status.get("tracks") or ()


def _origin(url: str) -> str:
    at = urlsplit(url)
    return f"{at.scheme}://{at.netloc}" if at.netloc else ""


def _expected_origin(stored: Stored) -> str:
    """Return where the Service of an InferenceService is going to be, so that nothing has to wait for its status."""
    port = (stored.spec.get("endpoint") or {}).get("port", SERVICE_PORT)
    return f"http://{names.service_host(stored.meta.name.replace('.', '-'), stored.meta.namespace)}:{port}"


_SERVED_BY: Final[dict[str, tuple[Resource, Callable[[Stored], ServedModel | None]]]] = {
    "InferenceService": (INFERENCE_SERVICE, _of_inference_service),
    "InferenceModel": (INFERENCE_MODEL, _of_inference_model),
    "ModelDeployment": (MODEL_DEPLOYMENT, _of_model_deployment),
    "ZerfooInferenceService": (ZERFOO, _of_zerfoo),
}
"""The kinds that serve models: their resource, and how their status is read. None: it speaks another protocol."""

RESOURCES: Final = tuple(resource for resource, _ in _SERVED_BY.values())
"""What a kind with references has to list in `looks_at`."""


def served_model(stored: Stored) -> ServedModel | None:
    """Return the model that an object serves; None: it is being deleted, or speaks another protocol than OpenAI's.

    For `Every`: it depends on nothing that changes while pods come and go.
    """
    _, read = _SERVED_BY[stored.resource.kind]
    return None if stored.meta.deleting else read(stored)


def offered_model(stored: Stored) -> DoorModel | None:
    """Return an object as a proxy in front of many models sees it; None: as `served_model`, or it is deprecated.

    For `Every`, too.
    """
    served = served_model(stored)
    if served is None or stored.resource == INFERENCE_SERVICE:
        return door_model(stored) if served else None
    if stored.resource == MODEL_DEPLOYMENT and stored.spec.get("deprecated"):
        return None
    owner = stored.meta.controller
    if owner and owner.kind == INFERENCE_SERVICE.kind:
        # It is how hosts outside the cluster serve an InferenceService, which is offered itself.
        return None
    name = stored.meta.name
    taken = _taken_names(stored) if stored.resource == MODEL_DEPLOYMENT else (served.model,)
    return DoorModel(
        service=stored.meta.key,
        host=f"{name}-svc" if stored.resource == ZERFOO else name,
        aliases=tuple(each for each in taken if each != name),
        takes_own_name=served.takes_own_name,
        created=stored.meta.creation_timestamp or "",
    )


def answering_place(stored: Stored) -> Key | None:
    """Return the Service at which an offered object answers; None: it does not answer, or is not offered.

    For `Every`, too.
    """
    served, offered = served_model(stored), offered_model(stored)
    return offered.place if served and served.ready and offered else None


def read_service(ref: ServiceRef) -> Named:
    """Return the read of the object that a reference names."""
    return Named(_SERVED_BY[ref.kind][0], ref.name)


def resolve_service(ref: ServiceRef, field: str, seen: Seen) -> ResolvedService:
    """Return what a reference leads to; `field` is where the user wrote it, for the message of a problem."""
    stored, what = seen.one(read_service(ref)), f"the {ref.kind} {ref.name} named by {field}"
    if stored is None or stored.meta.deleting:
        problem = Problem(
            Reason.REFERENCE_NOT_FOUND,
            f"{what} does not exist in this namespace",
            f"create it, or name another in {field}",
        )
        return ResolvedService(None, problem)
    served = served_model(stored)
    if served is None:
        problem = Problem(
            Reason.REFERENCE_UNFIT, f"{what} does not speak OpenAI's protocol", f"name another in {field}"
        )
        return ResolvedService(None, problem)
    awaited = Problem(
        Reason.REFERENCE_NOT_READY,
        f"{what} does not answer yet",
        f"wait, or see `kubectl describe {ref.kind.lower()} {ref.name}`",
    )
    return ResolvedService(served if served.url else None, None if served.url and served.ready else awaited)


def _holds(stored: Stored, condition: str) -> bool:
    return stored_condition(stored.status, condition).get("status") == Truth.TRUE
