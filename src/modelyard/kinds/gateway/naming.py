"""Names, labels and ports of the children of a Gateway. Dashboards and clients rely on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core import names
from modelyard.kinds.gateway.api import RESOURCE
from modelyard.kinds.shared import labels

if TYPE_CHECKING:
    from modelyard.kinds.gateway.api import GatewaySpec

GATEWAY: Final = "gateway"
"""The component of everything but the proxy in front of selected services."""
MODELS: Final = "models"
"""The component of that proxy."""
HTTPS_PORT: Final = 8443
"""The further port of the Service with TLS, where clients of the original operator look for it."""


def child_labels(name: str) -> dict[str, str]:
    """Return the labels of the gateway's own children and pods."""
    return {**labels.common(RESOURCE, name), names.COMPONENT_LABEL: GATEWAY}


def models_labels(name: str) -> dict[str, str]:
    """Return the labels of the proxy. Not the `app` of the gateway, or its Service would lead to both."""
    return {**labels.common(RESOURCE, name), names.COMPONENT_LABEL: MODELS, "app": models_name(name)}


def models_name(name: str) -> str:
    """Return the name of Deployment, Service and ConfigMap of the proxy in front of selected services."""
    return f"{name}-models"


def autoscaler_name(name: str) -> str:
    """Return the name of the autoscaler."""
    return f"{name}-hpa"


def routing_name(name: str) -> str:
    """Return the name of the ConfigMap with the routing file that the spec holds."""
    return f"{name}-routing"


def account_name(spec: GatewaySpec, name: str) -> str:
    """Return the name of the ServiceAccount of the pods."""
    return spec.service_account.name or name


def service_port(spec: GatewaySpec) -> int:
    """Return the port of the Service: that of the container unless the spec says otherwise."""
    return spec.service.port or spec.server.port


def service_url(spec: GatewaySpec, name: str, namespace: str) -> str:
    """Return the URL by which pods of the cluster reach the gateway."""
    scheme = "https" if spec.server.tls.enabled else "http"
    return f"{scheme}://{names.service_host(name, namespace)}:{service_port(spec)}"
