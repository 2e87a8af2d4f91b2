"""Names and labels of the children of a ModelDeployment. The guide and dashboards select by them."""

from __future__ import annotations

from typing import Final

from modelyard.core import names
from modelyard.kinds.modeldeployment.api import DEPLOYMENT_LABEL, RESOURCE
from modelyard.kinds.shared import labels

SERVER: Final = "server"
DOWNLOAD: Final = "download"
CLOSED: Final = "modelyard.dev/draining"
"""A label that no pod has."""


def child_labels(name: str) -> dict[str, str]:
    """Return the labels of every child."""
    common = labels.common(RESOURCE, name)
    # Without `app`: the Service of another kind with the same name selects by it, and would send requests here.
    del common["app"]
    return {**common, DEPLOYMENT_LABEL: name}


def pod_labels(name: str, component: str) -> dict[str, str]:
    """Return the labels of pods: those of the server, or those of the Job."""
    return {**child_labels(name), names.COMPONENT_LABEL: component}


def selector(name: str) -> dict[str, str]:
    """Return the selector of the pods that serve. It must never change: that of a Deployment is immutable."""
    return {DEPLOYMENT_LABEL: name, names.COMPONENT_LABEL: SERVER}


def closed_selector(name: str) -> dict[str, str]:
    """Return a selector that no pod matches, for a Service that is to let no new request in.

    Without any selector, Kubernetes would leave the endpoints as they are.
    """
    return {**selector(name), CLOSED: "true"}


def job_name(name: str, key: str) -> str:
    """Return the name of the Job that fetches the weights with this key. The pods of a Job carry it as a label."""
    return f"{names.short(f'{name}-download', 63 - len(key) - 1)}-{key}"
