"""The errors of the daemon: refusals, which answer a request, and failures, which end a load."""

from __future__ import annotations

from http import HTTPStatus

from modelyard.core.errors import ModelyardError
from modelyard.host.wire import Code, Problem


class Refusal(ModelyardError):
    """A request that is answered with an error. `retry_after` is in seconds; 0: the answer does not say."""

    def __init__(self, status: HTTPStatus, code: Code, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.status, self.problem, self.retry_after = status, Problem(code, message), retry_after


class LoadFailed(ModelyardError):
    """A model that could not be loaded, or whose engine has ended.

    A final failure is not tried again before a client asks for it: the same would come of it.
    """

    def __init__(self, code: Code, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.problem, self.is_final = Problem(code, message), is_final


def bad_request(message: str) -> Refusal:
    """Return the refusal of a body or a path that no retry would make good."""
    return Refusal(HTTPStatus.BAD_REQUEST, Code.BAD_REQUEST, message)


def not_found(model: str) -> Refusal:
    """Return the refusal of a request about a model that is not on this host."""
    return Refusal(HTTPStatus.NOT_FOUND, Code.NOT_FOUND, f"{model} is not on this host; GET /admin/models lists all")
