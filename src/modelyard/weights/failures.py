"""What can go wrong with a fetch, and what somebody has to do about it."""

from __future__ import annotations

from typing import Final

from modelyard.core.errors import ModelyardError
from modelyard.core.exitcodes import Code
from modelyard.core.text import clean

_LONGEST: Final = 16_384


class FetchFailed(ModelyardError):
    """The weights are not there, and why. The text may be shown to anybody: it never holds a secret.

    It may hold names that a server chose, so it is cleaned.
    """

    def __init__(self, code: Code, message: str, remedy: str) -> None:
        self.code, self.message, self.remedy = code, clean(message, _LONGEST), clean(remedy, _LONGEST)
        super().__init__(f"{self.message}; {self.remedy}")


class Transient(FetchFailed):
    """It may work in a moment; upstream may have said when."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(Code.TRANSIENT, message, "it is tried again; check the network if this stays")
        self.after = after


class Changed(Transient):
    """Upstream became something else while it was being fetched."""
