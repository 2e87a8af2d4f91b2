"""A streamed answer of a model: what each event adds, how fast it came, and why there is none. Pure.

The events are those of OpenAI's API, which every engine speaks. `conversation` reads them for `modelyard ask` and for
the page.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.core.text import clean

if TYPE_CHECKING:
    from modelyard.core.objects import Json

_DATA: Final = b"data:"
_END: Final = b"[DONE]"
_LONGEST: Final = 512


class NotAnswering(ModelyardError):
    """An object cannot be asked, or does not answer; the message says why."""


class Piece(Struct, frozen=True):
    """What one event adds to an answer: text, or thoughts before it."""

    text: str = ""
    thought: str = ""


class Figures(Struct, frozen=True, rename="camel"):
    """How fast an answer came."""

    first_token_seconds: float
    seconds: float
    tokens: int
    tokens_per_second: float
    """Of the tokens after the first; 0: there were none."""


class Meter:
    """Reads the events of one answer with their times, in seconds since the question was sent."""

    def __init__(self) -> None:
        self.model = ""
        """The name by which the server calls its model; empty: it does not say."""
        self._first: float | None = None
        self._last = 0.0
        self._pieces = self._counted = 0
        self._made_per_second = math.inf

    def add(self, line: bytes, at: float) -> Piece | None:
        """Return what one line of the stream adds; None: nothing. NotAnswering: the model broke off."""
        event = _event(line)
        if error := event.get("error"):
            raise NotAnswering(f"the model broke off: {_words(error)}")
        self.model = str(event.get("model") or self.model)
        self._counted = int((event.get("usage") or {}).get("completion_tokens") or self._counted)
        self._made_per_second = _speed(event.get("timings")) or self._made_per_second
        deltas = [_delta(choice) for choice in event.get("choices") or ()]
        piece = Piece(_joined(deltas, "content"), _joined(deltas, "reasoning_content"))
        if piece == Piece():
            return None
        self._first, self._last = at if self._first is None else self._first, at
        self._pieces += 1
        return piece

    def figures(self) -> Figures:
        """Return how fast the answer came; NotAnswering: it has no word.

        A server that does not count tokens sends one with each piece.
        """
        if self._first is None:
            raise NotAnswering("the model ended its answer without a word")
        tokens, lasted = self._counted or self._pieces, self._last - self._first
        # The first token comes at the beginning of the time that is measured.
        speed = (tokens - 1) / lasted if tokens > 1 and lasted > 0 else 0.0
        # Pieces that arrive together would look faster than any server makes them.
        speed = min(speed, self._made_per_second)
        return Figures(round(self._first, 3), round(self._last, 3), tokens, round(speed, 1))


def complaint(status: int, body: bytes) -> str:
    """Return why a server refuses a question, in its own words."""
    try:
        told = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        told = {}
    words = _words(told.get("error") or told.get("message") or told.get("detail") or body.decode(errors="replace"))
    return f"it says {status}: {words}"


def shown(text: str) -> str:
    """Return text of a model fit for a terminal: with its lines, and without control characters."""
    return "".join(character for character in text if character.isprintable() or character in "\n\t")


def _event(line: bytes) -> Json:
    data = line.removeprefix(_DATA).strip()
    if not line.startswith(_DATA) or data == _END:
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def _speed(timings: Any) -> float:
    """Return how many tokens a second llama.cpp says that it made; 0: it does not say."""
    told = timings.get("predicted_per_second") if isinstance(timings, dict) else None
    return float(told) if isinstance(told, int | float) and told > 0 else 0.0


def _delta(choice: Any) -> Json:
    delta = choice.get("delta") if isinstance(choice, dict) else None
    return delta if isinstance(delta, dict) else {}


def _joined(deltas: list[Json], field: str) -> str:
    return "".join(str(delta.get(field) or "") for delta in deltas)


def _words(error: Any) -> str:
    told = error.get("message", error) if isinstance(error, dict) else error
    return clean(str(told), _LONGEST)
