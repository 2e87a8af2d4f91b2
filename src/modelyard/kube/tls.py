"""TLS towards the API server: the CA that `transport` trusts, and the client certificate that it presents."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from modelyard.kube.errors import NoCredentials

if TYPE_CHECKING:
    from modelyard.kube.credentials import Identity


def certificates(text: str) -> str:
    """Return the certificates of a bundle (PEM) if OpenSSL takes them; else ssl.SSLError."""
    # Bundles carry names in comments, in any script, and Python takes ASCII only.
    found = text.encode("ascii", "ignore").decode()
    if "-----BEGIN" not in found:
        raise ssl.SSLError("there is no certificate")
    tls_context(found, verify=True)
    return found


def tls_context(authority: str, verify: bool) -> ssl.SSLContext:
    """Return a context that trusts this CA (PEM); empty: those of the system. Without `verify` it trusts any server."""
    context = ssl.create_default_context(cadata=authority or None)
    # Python 3.13 made this a default. It refuses the authorities of many clusters for a missing key identifier, which
    # no other Kubernetes client asks for. Chain, dates and host name are verified all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def show_certificate(context: ssl.SSLContext, identity: Identity) -> None:
    """Make a context present the client certificate of an identity."""
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
        # OpenSSL reads certificates from files only. The folder is readable by us alone and gone a moment later.
        both = Path(folder, "both.pem")
        both.write_bytes(identity.certificate + b"\n" + identity.key)
        try:
            # An empty password: OpenSSL would otherwise ask the terminal for that of an encrypted key.
            context.load_cert_chain(both, password="")
        except ssl.SSLError as error:
            raise NoCredentials(
                f"the client certificate and its key cannot be used{f': {error.reason}' if error.reason else ''}"
            ) from error
