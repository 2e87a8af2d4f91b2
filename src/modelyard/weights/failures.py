"""The errors of a fetch: each has an exit code, a message and a remedy, for the status of the Model."""

from __future__ import annotations

from typing import Final

from modelyard.core.errors import ModelyardError
from modelyard.core.exitcodes import Code
from modelyard.core.text import clean

_LONGEST: Final = 16_384


class FetchFailed(ModelyardError):
    """The weights could not be fetched. The text goes into a status, so it never holds a secret.

    It may hold names that a server chose, so it is cleaned.
    """

    def __init__(self, code: Code, message: str, remedy: str) -> None:
        self.code, self.message, self.remedy = code, clean(message, _LONGEST), clean(remedy, _LONGEST)
        super().__init__(f"{self.message}; {self.remedy}")


class Transient(FetchFailed):
    """A retry may help; `after` is how many seconds the server asked to wait (0: it did not say)."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(Code.TRANSIENT, message, "it is tried again; check the network if this stays")
        self.after = after


class Changed(Transient):
    """The file changed at its source while it was being fetched."""
