"""The manifests that make a machine known to a cluster: a Secret with its token, and an InferenceHost. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

Json = dict[str, Any]

_API_VERSION: Final = "modelyard.dev/v1alpha1"
_LONGEST_NAME: Final = 58
"""With `-host` behind it, a name is still a DNS label."""


class Joining(Struct, frozen=True):
    """What the manifests are made of."""

    name: str
    endpoint: str
    token: str
    namespace: str = ""
    """Empty: the one that kubectl applies to."""
    ca: str = ""
    """The PEM certificate that signed the one of the daemon; empty: the system of the operator trusts it."""


def host_name(text: str) -> str:
    """Return the name of an InferenceHost for a machine: what is before the first dot, as a DNS label."""
    label = re.sub(r"[^a-z0-9-]+", "-", text.partition(".")[0].lower()).strip("-")
    return label[:_LONGEST_NAME].strip("-") or "host"


def manifests(joining: Joining) -> list[Json]:
    """Return the Secret and the InferenceHost to apply."""
    secret = f"{joining.name}-host"
    data = {"token": joining.token, **({"ca.crt": joining.ca} if joining.ca else {})}
    tls = {"tls": {"caSecretRef": {"name": secret, "key": "ca.crt"}}} if joining.ca else {}
    spec = {"endpoint": joining.endpoint, "auth": {"secretRef": {"name": secret, "key": "token"}}, **tls}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": _meta(secret, joining), "stringData": data},
        {"apiVersion": _API_VERSION, "kind": "InferenceHost", "metadata": _meta(joining.name, joining), "spec": spec},
    ]


def _meta(name: str, joining: Joining) -> Json:
    return {"name": name, **({"namespace": joining.namespace} if joining.namespace else {})}
