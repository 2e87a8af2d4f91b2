"""The address of a Service as a check carries it. Where it is dialled is decided in `net/http_exchange.py`."""

from __future__ import annotations

from msgspec import Struct

from modelyard.core import names


class ServiceAddress(Struct, frozen=True):
    """A port of a Service that we created."""

    namespace: str
    name: str
    port: int
    ip: str = ""
    """The ClusterIP; empty: the Service has none, or it is not known yet."""

    @property
    def host(self) -> str:
        """The DNS name by which pods of the cluster reach the Service."""
        return names.service_host(self.name, self.namespace)
