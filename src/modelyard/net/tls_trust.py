"""TLS towards a Service whose certificate lies in a Secret that we know. All checks of such Services use it.

Two ways to be trusted, and no third: present the very certificate that is expected, whatever names it carries; or
present one that its authorities issued for the Service's name.
"""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


class NoCertificate(ModelyardError):
    """The text that should hold certificates holds none that can be used."""


def secret_contexts(
    secret: str, pem: str | None, field: str, failed: Callable[[Reason, str, str], ModelyardError]
) -> tuple[ssl.SSLContext | None, ...]:
    """Return the TLS contexts for a server with the certificate of a Secret, to try in turn; `(None,)`: without TLS.

    `secret` is empty if the server does not use TLS, and `pem` is None if there is no such Secret. `failed` makes the
    error that is raised then, of a reason, what is wrong and the remedy; `field` is where the spec names the Secret.
    """
    if not secret:
        return (None,)
    if pem is None:
        wrong = f"cannot be asked: Secret '{secret}' does not exist"
        raise failed(Reason.SECRET_NOT_FOUND, wrong, f"create it, or correct {field}")
    try:
        return tls_contexts(pem)
    except NoCertificate as error:
        wrong = f"cannot be asked: Secret '{secret}' holds no certificate"
        raise failed(Reason.SECRET_KEY_MISSING, wrong, "put it there in PEM form under tls.crt") from error


def tls_contexts(pem: str) -> tuple[ssl.SSLContext, ...]:
    """Return the TLS contexts to try in turn, for a PEM text whose first certificate is the server's own.

    Two contexts are needed because whether the name is checked must be settled before the server shows itself.
    """
    leaf, *authorities = _CERTIFICATE.findall(pem) or [""]
    pinned = _context(leaf, check_name=False)
    if not authorities:
        return (pinned,)
    return pinned, _context("\n".join(authorities), check_name=True)


def authority_context(pem: str) -> ssl.SSLContext:
    """Return the TLS context for a server whose certificate these authorities have issued for its name.

    `NoCertificate`: the text holds none that can be used.
    """
    return _context("\n".join(_CERTIFICATE.findall(pem)), check_name=True)


def _context(anchors: str, *, check_name: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check_name
    # A leaf or an intermediate is an anchor by itself: its root need not be known.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=anchors)
    except (ssl.SSLError, ValueError) as error:
        raise NoCertificate("no usable certificate") from error
    return context
