"""JSON-RPC 2.0 messages, for `mcp`: what a client with one request at a time needs of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    from collections.abc import Mapping


class NotJsonRpc(ModelyardError):
    """A text that is not a JSON-RPC message, or not the one that was due."""


class Fault(Struct, frozen=True):
    """The error of a response."""

    code: int = 0
    message: Any = ""
    """Text, says the protocol; an error with anything else is an error all the same."""


class Message(Struct, frozen=True):
    """Any message of the server: a response, a notification, or a request of its own."""

    id: int | str | float | None = None
    method: str = ""
    result: Raw | UnsetType = UNSET
    error: Fault | None = None

    def answers(self, number: int) -> bool:
        """Whether this is the response to our request of this number. An error may come without one."""
        if self.method:
            return False
        return str(self.id) == str(number) or (self.id is None and self.error is not None)


_INCOMING = msgspec.json.Decoder(Message | list[Message])


def outgoing(method: str, params: Mapping[str, Any], number: int | None) -> bytes:
    """Return a request as JSON; None as its number makes it a notification."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        message["id"] = number
    return msgspec.json.encode({**message, "params": params} if params else message)


def incoming(text: bytes) -> list[Message]:
    """Return the messages of one body or event; old protocol versions allow several at once."""
    try:
        found = _INCOMING.decode(text)
    # Text nested deeper than the interpreter allows is as useless as broken text.
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotJsonRpc("not a JSON-RPC message") from error
    return found if isinstance(found, list) else [found]
