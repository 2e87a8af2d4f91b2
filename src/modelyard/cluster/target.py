"""Where a question to an object goes, and the address for the same from a shell. Pure.

`conversation` sends it. The address comes from the kind, name and status of the object, never from what a browser says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct

from modelyard.cluster.kind_names import SERVING
from modelyard.core.resources import Key
from modelyard.kinds.shared.service_refs import served_model

if TYPE_CHECKING:
    from modelyard.core.objects import Stored

_LOCAL_PORT: Final = 8080
_SUFFIX: Final = ".svc.cluster.local"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class Target(Struct, frozen=True):
    """A port of a Service of the cluster that speaks OpenAI's API."""

    service: Key
    port: int
    base: str
    """The path of the API, such as `/v1`."""
    model: str = ""
    """The model to ask for; empty: the server offers several, and the user has to choose."""
    is_tls: bool = False

    @property
    def scheme(self) -> str:
        """The scheme of its URLs."""
        return "https" if self.is_tls else "http"

    @property
    def proxy_path(self) -> str:
        """The path by which the API server leads to the Service."""
        scheme, (namespace, name) = "https:" if self.is_tls else "", self.service
        return f"/api/v1/namespaces/{namespace}/services/{scheme}{name}:{self.port}/proxy{self.base}"


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


def shell_address(target: Target, origin: str, flags: str = "") -> tuple[str, str]:
    """Return the URL of the API from a shell, and the command that has to run for it; empty: none has to.

    An empty origin means that the Service is reached through a port that kubectl forwards, with these flags.
    """
    if origin:
        return f"{origin}{target.base}", ""
    place = f"service/{target.service.name} {_LOCAL_PORT}:{target.port}"
    forward = f"kubectl -n {target.service.namespace} port-forward {place}{flags}"
    return f"{target.scheme}://127.0.0.1:{_LOCAL_PORT}{target.base}", forward


def _of_url(url: str, model: str = "") -> Target | None:
    """Return the target of a URL inside the cluster; None: it is none."""
    at = urlsplit(url)
    name, _, namespace = (at.hostname or "").removesuffix(_SUFFIX).partition(".")
    # They become a path of the API server, so nothing but names may pass.
    if not _LABEL.fullmatch(name) or not _LABEL.fullmatch(namespace):
        return None
    is_tls = at.scheme == "https"
    return Target(Key(namespace, name), at.port or (443 if is_tls else 80), at.path.rstrip("/"), model, is_tls)
