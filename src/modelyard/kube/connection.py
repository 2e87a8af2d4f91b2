"""Where the API server is, whom to trust there, and who we are."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from modelyard.kube.credentials import Credentials


class Connection(Struct, frozen=True):
    """Everything that is needed to reach one API server."""

    server: str
    """The URL, without a slash at its end. It may have a path."""
    credentials: Credentials
    namespace: str = "default"
    """Where things go that name no namespace."""
    authority: str = ""
    """The certificates (PEM) that the server's must descend from; empty: those that the system trusts."""
    authority_file: Path | None = None
    """Where they were read from, to be read again when the server's certificate does not descend from them."""
    server_name: str = ""
    """The name that the server's certificate must carry; empty: the host of the URL."""
    verify: bool = True
    """False: believe any server. Only a kubeconfig that says so makes it False."""
