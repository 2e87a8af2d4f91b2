"""The models of a namespace that a proxy in front of all of them leads to: the objects that serve them, and where.

Pure. The kind Door and the proxy of a Gateway share it. On one machine `local/up/door` takes its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core import names
from modelyard.core.resources import SERVICE
from modelyard.core.selectors import Selector
from modelyard.kinds.contract import Every
from modelyard.kinds.shared.door_models import backends
from modelyard.kinds.shared.envoy import Address
from modelyard.kinds.shared.service_refs import RESOURCES, answering_place, offered_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Key
    from modelyard.kinds.contract import Read, Seen
    from modelyard.kinds.shared.door_models import DoorModel
    from modelyard.kinds.shared.envoy_door import Backend

# By our label, so that the watch of Services stays one of our own: no other Service can be that of a model.
_OURS: Final = Selector(((names.MANAGED_BY, names.MANAGER),))
_KINDS: Final = frozenset(resource.kind.lower() for resource in RESOURCES)
_HEADLESS: Final = "None"
_ALL: Final = Selector()


def reads(namespace: str, selector: Selector = _ALL) -> Iterator[Read]:
    """Name the objects of a namespace that serve models and that the selector matches, and their Services."""
    yield from _offered(namespace, selector)
    yield _services(namespace)


def reads_of_answering(namespace: str, selector: Selector = _ALL) -> Iterator[Read]:
    """Name what `is_any_answering` depends on beside `reads`."""
    yield from _answering(namespace, selector)


def is_any_answering(namespace: str, seen: Seen, selector: Selector = _ALL) -> bool:
    """Whether a model answers at an address of its own."""
    places = seen.every(_services(namespace))
    return any(place in places for read in _answering(namespace, selector) for place in seen.every(read).values())


def find_backends(namespace: str, seen: Seen, selector: Selector = _ALL) -> list[Backend]:
    """Return the models whose Services have an address, ready or not."""
    places = seen.every(_services(namespace))
    models = (model for read in _offered(namespace, selector) for model in seen.every(read).values())
    return backends({model: places[model.place] for model in models if model.place in places})


def _offered(namespace: str, selector: Selector) -> tuple[Every[DoorModel], ...]:
    return tuple(Every(resource, offered_model, namespace, selector) for resource in RESOURCES)


def _answering(namespace: str, selector: Selector) -> tuple[Every[Key], ...]:
    return tuple(Every(resource, answering_place, namespace, selector) for resource in RESOURCES)


def _services(namespace: str) -> Every[Address]:
    return Every(SERVICE, _address, namespace, _OURS)


def _address(service: Stored) -> Address | None:
    """Return the address of a Service of an object that serves a model; None: it has none, or is another's."""
    spec, ip = service.spec, str(service.spec.get("clusterIP", ""))
    if service.meta.label(names.KIND_LABEL) not in _KINDS or not ip or ip == _HEADLESS:
        return None
    return Address(ip, int(spec["ports"][0]["port"]))
