"""TLS towards a Service whose certificate lies in a Secret that we know, for `mcp`.

Two ways to be trusted, and no third: present the very certificate that is expected, whatever names it carries; or
present one that its authorities issued for the Service's name.
"""

from __future__ import annotations

import re
import ssl
from typing import Final

from modelyard.core.errors import ModelyardError

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


class NoCertificate(ModelyardError):
    """The text that should hold certificates holds none that can be used."""


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
