"""The decision of a ZerfooInferenceService, for plan and status: its server, and what is wrong with its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.kinds.zerfooinferenceservice.naming import PRIMARY
from modelyard.kinds.zerfooinferenceservice.server import Served, Server, resolve_server

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.zerfooinferenceservice.api import ZerfooInferenceServiceSpec


class Decision(Struct, frozen=True):
    """Which servers there should be."""

    primary: Server


def decide(service: Object[ZerfooInferenceServiceSpec], seen: Seen) -> Decision:
    """Return the decision of one service."""
    return Decision(resolve_server(service, primary_model(service.spec), seen))


def primary_model(spec: ZerfooInferenceServiceSpec) -> Served:
    """Return the model of the primary."""
    return Served(PRIMARY, spec.model_ref, "spec.modelRef")
