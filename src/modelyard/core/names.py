"""Labels and annotations that Modelyard writes, and names that fit where Kubernetes limits them."""

from __future__ import annotations

import hashlib
import re
from typing import Final

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "modelyard"
OURS: Final = f"{MANAGED_BY}={MANAGER}"
"""The label selector of children and pods: what we did not create is neither sent to us nor kept."""
KIND_LABEL: Final = "modelyard.dev/kind"
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
NAME_LABEL: Final = "app.kubernetes.io/name"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"

INTENT: Final = "modelyard.dev/intent"
REPLICAS: Final = "modelyard.dev/replicas"
PAUSED: Final = "modelyard.dev/paused"
FINALIZER: Final = "modelyard.dev/finalize"

REACHABLE: Final = "modelyard.dev/Reachable"
"""The condition of a Service that a proxy cannot listen for. Without it, the Service can be reached."""

FIELD_MANAGER: Final = "modelyard"

PAGE_TOKEN: Final = "MODELYARD_PAGE_TOKEN"  # noqa: S105 - the name of a variable
"""The variable by which `modelyard up` passes the page its one-time token: other users can see arguments."""

_LABEL_LIMIT: Final = 63


def short(name: str, limit: int = _LABEL_LIMIT) -> str:
    """Return a name of at most `limit` characters. A longer one is cut, and a hash keeps it unique."""
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: limit - 9].rstrip('-.')}-{digest}"


def service_host(name: str, namespace: str) -> str:
    """Return the DNS name of a Service inside its cluster."""
    return f"{name}.{namespace}.svc.cluster.local"


def repository(image: str) -> str:
    """Return an image without its tag and digest."""
    plain = image.partition("@")[0]
    folder, slash, last = plain.rpartition("/")
    return folder + slash + last.partition(":")[0]


def image_name(image: str) -> str:
    """Return the last part of the repository of an image, such as `node` of `docker.io/library/node:lts`."""
    return repository(image).rpartition("/")[2]


def dns_label(name: str) -> str:
    """Return a name that is a DNS label, as volumes need: changed characters are made up for by a hash."""
    clean = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    return short(name if clean == name else f"{clean}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".strip("-"))
