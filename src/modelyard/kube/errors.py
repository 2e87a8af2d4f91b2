"""Errors of the API server and of the way to it, as classes: what apimachinery tells by the reason of a Status.

ModelyardError
├── ConfigInvalid            the kubeconfig or the service account cannot be used; the user has to correct it
└── KubeError                an answer other than success; also everything below that has no class of its own
    ├── BadRequest      400  the request makes no sense
    ├── Unauthorized    401  the server does not accept our credentials
    ├── Forbidden       403  a rule is missing, or an admission check said no
    ├── NotFound        404  the object or the whole resource is absent
    ├── Conflict        409  the object is not what we thought it was
    │   └── AlreadyExists    there is an object of this name
    ├── Gone            410  the history that we asked for is forgotten
    ├── Invalid         422  the object breaks a rule of its schema; `causes` names the fields
    ├── TooManyRequests 429  come back after `retry_after`
    └── Unavailable     5xx  or no answer at all; `uncertain` says whether it may have been done
        └── NoCredentials    there is nothing to authenticate with

A body is quoted only when it is a Status object, and cut short, so that no secret reaches a log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    from collections.abc import Mapping

QUOTED: Final = 256
"""How many characters of a message from outside are shown."""

# A gateway that answers 502 has passed the request on and lost the answer, as with 500 and 504. A 503 was never begun.
_MAYBE_DONE: Final = frozenset({500, 502, 504})


class ConfigInvalid(ModelyardError):
    """The configuration of the client is wrong: `source` is the file, `field` the field, `wrong` the mistake."""

    def __init__(self, source: str, field: str, wrong: str) -> None:
        super().__init__(f"{source}: {field}: {wrong}" if field else f"{source}: {wrong}")
        self.source, self.field, self.wrong = source, field, wrong


class Cause(Struct, frozen=True):
    """One field that the server refuses, and why."""

    field: str = ""
    message: str = ""


class KubeError(ModelyardError):
    """A request was not answered with success. A status of 0: it was not answered at all."""

    def __init__(self, status: int, reason: str, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.retry_after = status, reason, message, retry_after


class BadRequest(KubeError):
    """The request makes no sense."""


class Unauthorized(KubeError):
    """The credentials are not, or no longer, valid."""


class Forbidden(KubeError):
    """We may not do this; `verb` and `resource` name the rule to look for."""

    verb: str = ""
    resource: str = ""
    by_role: bool = False
    """Whether a rule is missing. Quotas, policies and webhooks answer 403 too, in words of their own."""

    @property
    def namespace_terminating(self) -> bool:
        """Whether the namespace is being deleted, and nothing new is taken there."""
        return "being terminated" in self.message


class NotFound(KubeError):
    """There is no such object, or no such resource."""


class Conflict(KubeError):
    """The stored object is another, or newer, than the request assumed."""


class AlreadyExists(Conflict):
    """An object of this name is stored already."""


class Gone(KubeError):
    """The resource version or the page asked for is too old."""


class Invalid(KubeError):
    """The object was refused because of its content."""

    causes: tuple[Cause, ...] = ()


class TooManyRequests(KubeError):
    """The server asks us to wait for `retry_after` seconds."""


class StillBusy(TooManyRequests):
    """The server asked us to wait a moment ago, so the request was not sent."""


class Unavailable(KubeError):
    """The server could not answer, or could not be reached. `uncertain`: what was asked may have been done."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float = 0.0, uncertain: bool = False
    ) -> None:
        super().__init__(status, reason, message, retry_after=retry_after)
        self.uncertain = uncertain


class NoCredentials(Unavailable):
    """The token, the certificate or the plugin that makes them cannot be had."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "NoCredentials", message)


class _Details(Struct, frozen=True, rename="camel"):
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: float = 0.0


class Status(Struct, frozen=True):
    """The object by which the API server explains a failure."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


# As the authorizer begins, or the check of owner references. A policy may say "cannot", too, of what it forbids.
_ROLE_LACKS: Final = re.compile(r'(User ".*"|is forbidden:) cannot ')
_CLASSES: Final[dict[int, type[KubeError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
_STATUS: Final = msgspec.json.Decoder(Status)


def from_answer(code: int, headers: Mapping[str, str], body: bytes, verb: str, resource: str) -> KubeError:
    """Return the error that an HTTP answer stands for."""
    error = from_status(_explanation(body), verb, resource, code)
    error.retry_after = max(error.retry_after, _seconds(headers.get("Retry-After", "")))
    return error


def from_status(status: Status, verb: str, resource: str, code: int = 0) -> KubeError:
    """Return the error that a Status object stands for."""
    code = code or status.code or 500
    text = quoted(status.message) or f"the server answered {code} without saying why"
    message = f"{verb} {resource}: {text}"
    details = status.details or _Details()
    error = _classified(code, status, message)
    error.retry_after = details.retry_after_seconds
    if isinstance(error, Invalid):
        error.causes = tuple(Cause(cause.field, quoted(cause.message)) for cause in details.causes or ())
    if isinstance(error, Forbidden):
        error.verb, error.resource, error.by_role = verb, resource, bool(_ROLE_LACKS.search(status.message))
    return error


def quoted(text: str) -> str:
    """Return as much of a text from outside as may be shown."""
    return text if len(text) <= QUOTED else f"{text[: QUOTED - 1]}…"


def _classified(code: int, status: Status, message: str) -> KubeError:
    if code >= 500:
        return Unavailable(code, status.reason, message, uncertain=code in _MAYBE_DONE)
    if code == 409 and status.reason == "AlreadyExists":
        return AlreadyExists(code, status.reason, message)
    if code == 403 and _ROLE_LACKS.search(status.message):
        message = f"{message}; add this verb and resource to the role that the operator is bound to"
    return _CLASSES.get(code, KubeError)(code, status.reason, message)


def _explanation(body: bytes) -> Status:
    try:
        status = _STATUS.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Status()
    return status if status.kind == "Status" else Status()


def _seconds(header: str) -> float:
    return float(header) if header.isascii() and header.isdigit() else 0.0
