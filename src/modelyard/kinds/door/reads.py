"""What the door of a namespace depends on: its InferenceServices, and the Services in front of their pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core import names
from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, SERVICE
from modelyard.core.selectors import Selector
from modelyard.kinds.contract import Every, Owned
from modelyard.kinds.inferenceservice.api import RESOURCE as INFERENCE_SERVICE
from modelyard.kinds.inferenceservice.api import SERVICE_LABEL
from modelyard.kinds.shared.door_models import door_model
from modelyard.kinds.shared.envoy import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.door.api import NamespaceSpec
    from modelyard.kinds.shared.door_models import DoorModel

# By our labels, so that the watch of Services stays one of our own: no other Service can be that of a model.
_OF_SERVICES: Final = Selector(
    ((names.KIND_LABEL, INFERENCE_SERVICE.kind.lower()), (names.MANAGED_BY, names.MANAGER)),
)
_HEADLESS: Final = "None"


class ServiceFacet(Struct, frozen=True):
    """The Service of an InferenceService, as a door sees it."""

    label: str
    """The name of the InferenceService, as labels hold it."""
    address: Address


def models(namespace: str) -> Every[DoorModel]:
    """Return the read of all InferenceServices of a namespace."""
    return Every(INFERENCE_SERVICE, _model_facet, namespace)


def services(namespace: str) -> Every[ServiceFacet]:
    """Return the read of the Services of all InferenceServices of a namespace."""
    return Every(SERVICE, _service_facet, namespace, _OF_SERVICES)


def reads(namespace: Object[NamespaceSpec], _: Seen) -> Iterator[Read]:
    """Name everything that the plan depends on."""
    yield models(namespace.meta.name)
    yield services(namespace.meta.name)
    # To remove them when the last model has gone.
    yield Owned(CONFIG_MAP)
    yield Owned(DEPLOYMENT)
    yield Owned(SERVICE)


def _model_facet(service: Stored) -> DoorModel | None:
    return None if service.meta.deleting else door_model(service)


def _service_facet(service: Stored) -> ServiceFacet | None:
    spec = service.spec
    address = spec.get("clusterIP", "")
    if not address or address == _HEADLESS:
        return None
    return ServiceFacet(service.meta.label(SERVICE_LABEL), Address(address, int(spec["ports"][0]["port"])))
