"""Write kubeconfig files for users of a control plane on this machine. `controlplane` calls it."""

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
    """Write a kubeconfig with one cluster, user and context, and return its file. It refers to no other file."""
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
    """Return the `user` entry with a client certificate."""
    return {
        "client-certificate-data": _text(credential.certificate),
        "client-key-data": _text(credential.key),
    }


def by_token(token: str) -> dict[str, str]:
    """Return the `user` entry with a bearer token."""
    return {"token": token}


def _text(content: bytes) -> str:
    return b64encode(content).decode()
