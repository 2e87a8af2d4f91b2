"""The errors of a fetch: each has an exit code, a message and a remedy, for the status of the Model."""

from __future__ import annotations

from typing import Final

from modelyard.core.errors import ModelyardError
from modelyard.core.exitcodes import Code
from modelyard.core.text import clean

_LONGEST: Final = 16_384
_TOO_MANY: Final = 429
_CHECK_NETWORK: Final = "it is tried again; check the network if this stays"


class FetchFailed(ModelyardError):
    """The weights could not be fetched. The text goes into a status, so it never holds a secret.

    It may hold names that a server chose, so it is cleaned.
    """

    def __init__(self, code: Code, message: str, remedy: str) -> None:
        self.code, self.message, self.remedy = code, clean(message, _LONGEST), clean(remedy, _LONGEST)
        super().__init__(f"{self.message}; {self.remedy}")


class Transient(FetchFailed):
    """A retry may help; `after` is how many seconds the server asked to wait (0: it did not say)."""

    def __init__(self, message: str, after: float = 0.0, remedy: str = _CHECK_NETWORK) -> None:
        super().__init__(Code.TRANSIENT, message, remedy)
        self.after = after


def busy(status: int, message: str, after: float = 0.0) -> Transient:
    """Return that a server answered and could not serve, so that the network is not what to look at."""
    remedy = "it is tried again; if this stays, the server has trouble of its own: ask who runs it"
    if status == _TOO_MANY:
        remedy = "it is tried again, and the server wants fewer requests: wait, or give credentials that may do more"
    return Transient(message, after, remedy)


def bad_signature(message: str) -> FetchFailed:
    """Return that a store answered 400 to a signed request: unlike a wrong key, what has expired is no 403 to it."""
    return FetchFailed(Code.AUTH, message, "check whether AWS_SESSION_TOKEN has expired, and AWS_REGION")


class Changed(Transient):
    """The file changed at its source while it was being fetched."""
