"""The check of a gateway, answered by `net/gateway_models.py`."""

from __future__ import annotations

from typing import ClassVar

from modelyard.core.checks import Check
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.grants import Grant
from modelyard.core.resources import SECRET


class GatewayModels(Check, frozen=True):
    """Ask a gateway for its health, and for the models of each of its providers."""

    grants: ClassVar[tuple[Grant, ...]] = (Grant(SECRET, "", ("get",)),)

    service: ServiceAddress
    providers: tuple[str, ...]
    """The ids of the providers to ask for."""
    template: str
    """A fingerprint of the pod template: answers of older pods must not speak for newer ones."""
    offered: int = 0
    """How many models selected services offer. They are news to the gateway at first: one that lists no model has not
    heard of them yet, and one that has heard of fewer is asked anew."""
    needs_token: bool = False
    """Whether clients need a token. We have none, and ask only for the health."""
    trust: str = ""
    """The Secret with the certificate that the gateway must present; empty: plain HTTP."""
    certificate: str = "tls.crt"
    """The key of the certificate in that Secret."""
    timeout: float = 15.0
    every: float = 30.0
