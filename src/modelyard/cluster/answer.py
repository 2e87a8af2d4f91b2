"""A streamed answer of a model: where it is asked, what each event adds, and how fast it came. Pure.

The events are those of OpenAI's API, which every engine speaks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.core.resources import Key

if TYPE_CHECKING:
    from modelyard.core.objects import Json

CHAT: Final = "/v1/chat/completions"

_DATA: Final = b"data:"
_END: Final = b"[DONE]"
_CLUSTER_HOST: Final = re.compile(r"(?P<name>[a-z0-9-]+)\.(?P<namespace>[a-z0-9-]+)\.svc(\..*)?")
_PORTS: Final = {"http": 80, "https": 443}


class NotAnswering(ModelyardError):
    """An object cannot be asked, or does not answer."""


class Address(Struct, frozen=True):
    """A Service of the cluster, a port of it, and the path of its chat."""

    service: Key
    scheme: str
    port: int
    path: str

    @property
    def proxied(self) -> str:
        """The path of the API server below which it passes requests on to the Service."""
        tls = "https:" if self.scheme == "https" else ""
        target = f"{tls}{self.service.name}:{self.port}"
        return f"/api/v1/namespaces/{self.service.namespace}/services/{target}/proxy"

    @property
    def models(self) -> str:
        """The path that lists the models."""
        return self.path.removesuffix("/chat/completions") + "/models"


def address_of(url: str) -> Address:
    """Return where the URL of a status leads; NotAnswering: not to a Service of the cluster."""
    parts = urlsplit(url)
    found = _CLUSTER_HOST.fullmatch(parts.hostname or "")
    if not found:
        raise NotAnswering(f"{url or 'its status'} names no Service of the cluster, so it cannot be asked from here")
    path = parts.path if parts.path.endswith("/chat/completions") else CHAT
    port = parts.port or _PORTS.get(parts.scheme, 80)
    return Address(Key(found["namespace"], found["name"]), parts.scheme, port, path)


class Figures(Struct, frozen=True, rename="camel"):
    """How fast an answer came."""

    first_token_seconds: float
    seconds: float
    tokens: int
    tokens_per_second: float
    """Of the tokens after the first; 0: there were none."""


class Answer(Struct, frozen=True, rename="camel"):
    """What `modelyard ask -o json` prints."""

    object: str
    model: str
    answer: str
    figures: Figures


class Meter:
    """Collects the pieces of an answer with their times, in seconds since the question was sent."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._first = self._last = 0.0
        self._counted = 0

    def add(self, line: bytes, at: float) -> str:
        """Return the text that one line of the stream adds; empty: it adds none."""
        event = _event(line)
        if error := event.get("error"):
            told = error.get("message") if isinstance(error, dict) else error
            raise NotAnswering(f"the model broke off: {told}")
        usage = event.get("usage")
        self._counted = int((usage or {}).get("completion_tokens") or self._counted)
        piece = "".join(_text(choice) for choice in event.get("choices") or ())
        if piece:
            self._first, self._last = self._first or at, at
            self._pieces.append(piece)
        return piece

    @property
    def text(self) -> str:
        """The whole answer so far."""
        return "".join(self._pieces)

    def figures(self) -> Figures:
        """Return how fast the answer came. A server that does not count tokens sends one with each piece."""
        tokens, lasted = self._counted or len(self._pieces), self._last - self._first
        speed = (tokens - 1) / lasted if tokens > 1 and lasted > 0 else 0.0
        return Figures(round(self._first, 3), round(self._last, 3), tokens, round(speed, 1))


def _event(line: bytes) -> Json:
    data = line.removeprefix(_DATA).strip()
    if not line.startswith(_DATA) or data == _END:
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def _text(choice: Any) -> str:
    delta = choice.get("delta") if isinstance(choice, dict) else None
    return str((delta or {}).get("content") or "")


def shown(text: str) -> str:
    """Return text of a model fit for a terminal: with its lines, and without control characters."""
    return "".join(character for character in text if character.isprintable() or character in "\n\t")
