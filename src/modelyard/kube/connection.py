"""The connection to an API server as a value: its address, the CA to trust, our credentials. Made by `config`."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from modelyard.kube.credentials import Credentials


class Connection(Struct, frozen=True):
    """Everything that a transport needs to reach one API server; client-go calls it rest.Config."""

    server: str
    """The URL, without a slash at its end. It may have a path."""
    credentials: Credentials
    namespace: str = "default"
    """The namespace of objects that name none."""
    authority: str = ""
    """The certificates (PEM) that the server's must descend from; empty: those that the system trusts."""
    authority_file: Path | None = None
    """Where they were read from, to be read again when the server's certificate does not descend from them."""
    server_name: str = ""
    """The name that the server's certificate must carry; empty: the host of the URL."""
    verify: bool = True
    """False: accept any certificate. Only `insecure-skip-tls-verify` of a kubeconfig makes it False."""
