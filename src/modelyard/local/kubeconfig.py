"""Write kubeconfig files: who somebody is and where the API server listens."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import yaml

from modelyard.local.files import write_private

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.local.pki import Credential

_NAME = "modelyard"


def write_kubeconfig(
    file: Path, server: str, authority: bytes, user: dict[str, str], namespace: str = "default"
) -> Path:
    """Write a kubeconfig with one cluster, one user and one context. Everything is inside the file."""
    cluster = {"server": server, "certificate-authority-data": _text(authority)}
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": user}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": namespace}}],
        "current-context": _NAME,
    }
    return write_private(file, yaml.safe_dump(content, sort_keys=False).encode())


def by_certificate(credential: Credential) -> dict[str, str]:
    """Return the `user` of somebody who proves it by a client certificate."""
    return {
        "client-certificate-data": _text(credential.certificate),
        "client-key-data": _text(credential.key),
    }


def by_token(token: str) -> dict[str, str]:
    """Return the `user` of somebody who proves it by a bearer token."""
    return {"token": token}


def _text(content: bytes) -> str:
    return b64encode(content).decode()
