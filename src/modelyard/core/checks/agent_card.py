"""The check of an agent's card, answered by `net/agent_card.py`."""

from __future__ import annotations

from typing import ClassVar

from modelyard.core.checks import Check
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.grants import Grant
from modelyard.core.resources import SECRET


class AgentCard(Check, frozen=True):
    """Read the card that an A2A agent publishes of itself."""

    grants: ClassVar[tuple[Grant, ...]] = (Grant(SECRET, "", ("get",)),)

    service: ServiceAddress
    template: str
    """A fingerprint of the pod template: the card of older pods must not speak for newer ones."""
    trust: str = ""
    """The Secret whose `tls.crt` the agent must present; empty: plain HTTP."""
    timeout: float = 5.0
    every: float = 30.0
