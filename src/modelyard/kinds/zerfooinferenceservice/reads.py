"""The reads of a ZerfooInferenceService: its children and pods, and the Model of its server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, POD, SERVICE
from modelyard.kinds.contract import Owned
from modelyard.kinds.zerfooinferenceservice import server
from modelyard.kinds.zerfooinferenceservice.decide import primary_model
from modelyard.kinds.zerfooinferenceservice.naming import PRIMARY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.zerfooinferenceservice.api import ZerfooInferenceServiceSpec


def reads(service: Object[ZerfooInferenceServiceSpec], seen: Seen) -> Iterator[Read]:
    """Name everything that decision, plan and status depend on."""
    yield Owned(SERVICE)
    yield Owned(AUTOSCALER)
    yield Owned(DEPLOYMENT, PRIMARY)
    yield Owned(POD, PRIMARY)
    yield from server.reads(service.spec, primary_model(service.spec), seen)
