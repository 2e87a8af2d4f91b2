"""Names, labels and selectors of the children of a ZerfooInferenceService. Clients rely on the names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core import names
from modelyard.kinds.shared import labels
from modelyard.kinds.shared.traffic import ROUTER, RouterPlace
from modelyard.kinds.zerfooinferenceservice.api import RESOURCE

if TYPE_CHECKING:
    from modelyard.core.objects import Metadata

PRIMARY = "primary"
CANARY = "canary"


def service_name(name: str) -> str:
    """Return the name of the Service that clients use."""
    return f"{name}-svc"


def autoscaler_name(name: str) -> str:
    """Return the name of the autoscaler."""
    return f"{name}-hpa"


def track_name(name: str, track: str) -> str:
    """Return the name of the Deployment of a track, and of its Service."""
    return f"{name}-{track}"


def router_place(meta: Metadata) -> RouterPlace:
    """Return where the routers of an object are."""
    return RouterPlace(meta.namespace, track_name(meta.name, ROUTER), (PRIMARY, CANARY))


def child_labels(name: str) -> dict[str, str]:
    """Return the labels of children that belong to no track."""
    return labels.common(RESOURCE, name)


def selector(name: str, track: str) -> dict[str, str]:
    """Return the selector of the pods of a track.

    `app` is not the name of the object: the Service of an MCP of that name would select the pods too.
    """
    return {**labels.selector(track_name(name, track)), names.COMPONENT_LABEL: track}


def track_labels(name: str, track: str) -> dict[str, str]:
    """Return the labels of the children and pods of a track."""
    return {**child_labels(name), **selector(name, track)}
