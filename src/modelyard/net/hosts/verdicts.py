"""What the answers of a host mean, with the next step. Pure: the same answer gives the same text each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.checks import Answer
from modelyard.core.conditions import Problem
from modelyard.core.errors import ModelyardError
from modelyard.core.reasons import Reason
from modelyard.net.http_exchange import Distrusted, ExchangeFailed, NoAnswer
from modelyard.net.ssrf_guard import NotAllowed

if TYPE_CHECKING:
    from modelyard.net.hosts.http import Said

ACCEPTED: Final = frozenset({200, 201, 202, 204})
MISSING: Final = "missing"
"""In the value of an answer to a load: the host does not have the model, and can fetch it."""
_NOT_THERE: Final = ("not running", "not loaded", "not found")
_CHECK_ENDPOINT: Final = "check spec.endpoint and spec.protocol of the InferenceHost"
_LET_IN: Final = "check spec.auth, and that the host accepts requests from the nodes of the cluster"


class HostFailed(ModelyardError):
    """A host cannot be used as it is; `problem` says why, for the status."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


def failed(problem: Problem, retry_after: float = 0.0) -> Answer:
    """Return a problem as an answer; the seconds are what the host asks for."""
    return Answer(False, problem.reason, problem.text, {"retryAfter": retry_after} if retry_after else {})


def trouble(failure: ExchangeFailed) -> Problem:
    """Return why no usable answer came."""
    wrong = f"the host {failure}"
    match failure:
        case NotAllowed():
            remedy = "use a public address in spec.endpoint, or let an administrator add it to --host-networks"
            return Problem(Reason.ADDRESS_NOT_ALLOWED, wrong, remedy)
        case NoAnswer():
            return Problem(Reason.NO_ANSWER, wrong, "check that it runs, and that the operator can reach spec.endpoint")
        case Distrusted(out_of_date=True):
            return Problem(Reason.BAD_ANSWER, wrong, "renew its certificate")
        case Distrusted():
            wrong = "the host presents a certificate that the operator does not trust"
            return Problem(Reason.BAD_ANSWER, wrong, "check spec.tls.caSecretRef and spec.tls.serverName")
        case _:
            return Problem(Reason.BAD_ANSWER, wrong, _CHECK_ENDPOINT)


def unexpected(said: Said, path: str) -> Problem:
    """Return what an HTTP status other than success means for a probe."""
    if said.status in (401, 403):
        wrong = f"the host does not let the operator in (HTTP {said.status})"
        return Problem(Reason.UNAUTHORIZED, wrong, _LET_IN)
    if 300 <= said.status < 400:
        return Problem(Reason.BAD_ANSWER, f"the host redirects {path}, which is not followed", _CHECK_ENDPOINT)
    if said.status >= 500:
        return Problem(Reason.BAD_ANSWER, f"the host is not well (HTTP {said.status} for {path})", "look at its log")
    return Problem(Reason.BAD_ANSWER, f"the host answered {path} with HTTP {said.status}", _CHECK_ENDPOINT)


def load_verdict(said: Said) -> Answer:
    """Return whether a host has accepted a model, or why not. Unreadable: it says neither, because it is no host."""
    _ = said.body
    # A conflict for most daemons, and a bad request for the router of llama.cpp.
    already = said.status in (400, 409) and "already" in f"{said.code} {said.message}".lower()
    if said.status in ACCEPTED or already:
        return Answer(True, Reason.ANSWERED, "the host has accepted the model")
    return failed(_refusal(said), said.retry_after)


def unload_verdict(said: Said) -> Answer:
    """Return whether a host has unloaded a model, or why not. One that it does not have is unloaded."""
    # The router of llama.cpp answers so to a model that it knows and has not loaded.
    not_there = said.status == 404 or (said.status == 400 and any(one in said.message.lower() for one in _NOT_THERE))
    if said.status in ACCEPTED or not_there:
        return Answer(True, Reason.ANSWERED, "the host has unloaded the model")
    return failed(_refusal(said), said.retry_after)


def _refusal(said: Said) -> Problem:
    if said.status in (401, 403) or 300 <= said.status < 400:
        return unexpected(said, "/admin/models")
    because = f": {said.message}" if said.message else ""
    wrong = f"the host answered with HTTP {said.status}{because}"
    match said.status:
        case 400 | 422:
            return Problem(Reason.LOAD_FAILED, wrong, "check spec.model")
        case 404:
            return Problem(Reason.LOAD_FAILED, wrong, "check the spelling of spec.model")
        case 413 | 507:
            return Problem(Reason.INSUFFICIENT_MEMORY, wrong, "make room on the host, or set spec.memory")
        case 409 | 429 | 503:
            return Problem(Reason.LOAD_FAILED, wrong, "it is asked again")
        case _:
            return Problem(Reason.LOAD_FAILED, wrong, "look at the log of the host; it is asked again")
