"""What clients of a door rely on: its name and its port. Users write nothing: the object is their Namespace."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from modelyard.core.resources import NAMESPACE

RESOURCE: Final = NAMESPACE

NAME: Final = "modelyard-door"
"""The name of the Service, and of the Deployment and the ConfigMap behind it, in every namespace that has a door."""
PORT: Final = 80
"""The port of the Service, so that clients can leave it out."""


class NamespaceSpec(Struct, frozen=True):
    """The spec of a Namespace. A door depends on nothing in it."""
