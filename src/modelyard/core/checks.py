"""Questions to programs outside the API server, and their answers. Who carries them is `net/`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from modelyard.core import names
from modelyard.core.reasons import Reason


class ServiceAddress(Struct, frozen=True):
    """A port of a Service that we created. It is dialled by reference; where that is, the operator's wiring knows."""

    namespace: str
    name: str
    port: int
    ip: str = ""
    """The address that the cluster gave it."""

    @property
    def host(self) -> str:
        """The name by which pods of the cluster reach it."""
        return names.service_host(self.name, self.namespace)


class McpHandshake(Struct, frozen=True):
    """Start a session with an MCP server, list its tools, end the session."""

    service: ServiceAddress
    path: str
    timeout: float
    template: str
    """Which pods are asked: answers of an older pod template must not speak for a newer one."""
    trust: str = ""
    """The Secret whose `tls.crt` the server must present; empty: plain HTTP."""
    every: float = 30.0


class RemoteWeights(Struct, frozen=True):
    """Ask upstream what it has: the size and version of a file, and what its GGUF header tells."""

    url: str
    every: float
    gguf: bool = True
    """Whether the file should begin with a GGUF header."""
    known: str = ""
    """The version that pods had when this was asked: an answer from before must not be compared with a newer one."""


class LogTail(Struct, frozen=True):
    """Read the last line of JSON that a container of ours wrote."""

    namespace: str
    pod: str
    container: str
    every: float = 10.0


Check = McpHandshake | RemoteWeights | LogTail
"""Every question that a kind may ask."""


class Answer(Struct, frozen=True):
    """What came back, as far as status depends on it: equal answers are no news."""

    ok: bool
    reason: Reason
    message: str
    value: dict[str, Any] = {}
