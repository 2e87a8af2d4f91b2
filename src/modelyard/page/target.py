"""Where a question to an object goes, and the address for the same from a shell. Pure.

`ask` sends it. The address comes from the kind and name of the object, never from what a browser says.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct

from modelyard.kinds.shared.service_refs import served_model

if TYPE_CHECKING:
    from modelyard.core.objects import Stored

SERVING: Final = frozenset({"InferenceService", "ModelDeployment", "ZerfooInferenceService"})
ANSWERING: Final = SERVING | {"Gateway", "InferenceModel"}
"""The kinds that speak OpenAI's API."""

_LOCAL_PORT: Final = 8080
_SUFFIX: Final = ".svc.cluster.local"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class Target(Struct, frozen=True):
    """A Service of the cluster that speaks OpenAI's API."""

    namespace: str
    service: str
    port: int
    base: str
    """The path of the API, such as `/v1`."""
    model: str = ""
    """The model to ask for; empty: the server offers several, and the user has to choose."""
    is_tls: bool = False

    @property
    def proxy_path(self) -> str:
        """The path by which the API server leads to the Service."""
        scheme = "https:" if self.is_tls else ""
        return f"/api/v1/namespaces/{self.namespace}/services/{scheme}{self.service}:{self.port}/proxy{self.base}"


def find_target(item: Stored) -> Target | None:
    """Return where an object answers; None: its kind does not, or it has no address yet."""
    kind, status = item.resource.kind, item.status
    if kind in SERVING:
        served = served_model(item)
        return _of_url(served.url, served.model) if served else None
    if kind == "Gateway":
        url = str(status.get("serviceUrl") or "")
        return _of_url(f"{url}/v1") if url else None
    if kind == "InferenceModel":
        return _of_url(f"{status.get('endpoint', '')}/v1", str(item.spec.get("model") or ""))
    return None


def direct_origin(target: Target, cluster_ip: str) -> str:
    """Return the origin of a Service that listens on this machine, as on one machine; empty: it does not."""
    try:
        is_here = ipaddress.ip_address(cluster_ip).is_loopback
    except ValueError:
        return ""
    scheme = "https" if target.is_tls else "http"
    return f"{scheme}://{cluster_ip}:{target.port}" if is_here else ""


def shell_address(target: Target, origin: str) -> tuple[str, str]:
    """Return the URL of the API from a shell, and the command that has to run for it; empty: none has to.

    An empty origin means that the Service is reached through a port that kubectl forwards.
    """
    if origin:
        return f"{origin}{target.base}", ""
    scheme = "https" if target.is_tls else "http"
    place = f"service/{target.service} {_LOCAL_PORT}:{target.port}"
    return f"{scheme}://127.0.0.1:{_LOCAL_PORT}{target.base}", f"kubectl -n {target.namespace} port-forward {place}"


def _of_url(url: str, model: str = "") -> Target | None:
    """Return the target of a URL inside the cluster; None: it is none."""
    at = urlsplit(url)
    name, _, namespace = (at.hostname or "").removesuffix(_SUFFIX).partition(".")
    # They become a path of the API server, so nothing but names may pass.
    if not _LABEL.fullmatch(name) or not _LABEL.fullmatch(namespace):
        return None
    is_tls = at.scheme == "https"
    return Target(namespace, name, at.port or (443 if is_tls else 80), at.path.rstrip("/"), model, is_tls)
