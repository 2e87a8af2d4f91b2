"""The reads of a ZerfooInferenceService: its children and pods, the Models of its servers, and its routers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, POD, SERVICE
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import fetch_progress, traffic
from modelyard.kinds.shared.http_route import HTTP_ROUTE
from modelyard.kinds.zerfooinferenceservice import naming, server
from modelyard.kinds.zerfooinferenceservice.decide import canary_model, primary_model
from modelyard.kinds.zerfooinferenceservice.naming import CANARY, PRIMARY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.zerfooinferenceservice.api import ZerfooInferenceServiceSpec


def reads(service: Object[ZerfooInferenceServiceSpec], seen: Seen) -> Iterator[Read]:
    """Name everything that decision, plan and status depend on."""
    yield Owned(SERVICE)
    yield Owned(SERVICE, CANARY)
    yield Owned(AUTOSCALER)
    yield Owned(HTTP_ROUTE)
    for track in (PRIMARY, CANARY):
        yield Owned(DEPLOYMENT, track)
        yield Owned(POD, track)
        yield from fetch_progress.reads(service.meta.namespace, seen, track)
    for served in filter(None, (primary_model(service), canary_model(service))):
        yield from server.reads(service.spec, served, seen)
    yield from traffic.reads(naming.router_place(service.meta), seen)
