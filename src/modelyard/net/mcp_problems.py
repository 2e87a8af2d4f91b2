"""The problems of an MCP server as condition messages that name the next step, for `mcp`.

Pure. The same trouble gives the same text each time: no times and no ephemeral ports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.conditions import Problem
from modelyard.core.errors import ModelyardError
from modelyard.core.reasons import Reason
from modelyard.core.text import clean
from modelyard.net.http_exchange import Distrusted, NoAnswer

if TYPE_CHECKING:
    from modelyard.net.http_exchange import ExchangeFailed

CHECK_ADDRESS: Final = "check spec.server.path and spec.server.port"
CHECK_LOGS: Final = "look at the logs of its pods"
_LONGEST_SAID: Final = 256


class HandshakeFailed(ModelyardError):
    """The handshake cannot go on; `problem` says why, for the status."""

    def __init__(self, reason: Reason, wrong: str, remedy: str) -> None:
        self.problem = Problem(reason, f"the server {wrong}", remedy)
        super().__init__(self.problem.text)


def refusal(status: int, method: str, path: str, *, in_session: bool) -> HandshakeFailed:
    """Return what an HTTP status other than success means for the handshake."""
    match status:
        case 401:
            remedy = "Modelyard's check sends none: let the server answer 'initialize' and 'tools/list' without them"
            return HandshakeFailed(Reason.UNAUTHORIZED, "wants credentials (HTTP 401)", remedy)
        case 403:
            # Servers that guard against foreign names answer this, too.
            remedy = "let it accept the host name of its Service and need no credentials"
            return HandshakeFailed(Reason.UNAUTHORIZED, "does not let Modelyard in (HTTP 403)", remedy)
        case 404 if in_session:
            remedy = "with several replicas, let them share sessions or run without sessions"
            return HandshakeFailed(Reason.BAD_ANSWER, "forgot the session between two requests (HTTP 404)", remedy)
        case 421:
            remedy = "let it accept the host name of its Service"
            return HandshakeFailed(Reason.BAD_ANSWER, "does not accept the name it is called by (HTTP 421)", remedy)
        case 404:
            return HandshakeFailed(
                Reason.BAD_ANSWER, f"has no MCP endpoint at '{clean(path)}' (HTTP 404)", CHECK_ADDRESS
            )
        case 405:
            # What a server of the HTTP+SSE transport says, where its stream of events begins.
            remedy = "let it speak Streamable HTTP, not the older HTTP+SSE, and check spec.server.path"
            return HandshakeFailed(Reason.BAD_ANSWER, f"takes no requests at '{clean(path)}' (HTTP 405)", remedy)
        case _ if status < 400:
            wrong = f"redirects '{clean(path)}' (HTTP {status}), which is not followed"
            return HandshakeFailed(Reason.BAD_ANSWER, wrong, "put the final path into spec.server.path")
        case _:
            remedy = CHECK_LOGS if status >= 500 else CHECK_ADDRESS
            return HandshakeFailed(Reason.BAD_ANSWER, f"answered '{method}' with HTTP {status}", remedy)


def rejection(method: str, code: int, text: object) -> HandshakeFailed:
    """Return what a JSON-RPC error means, in the server's own words as far as they are the same each time."""
    # Words with digits are left out: a time or a number of a request would make each answer another one.
    words = " ".join(word for word in clean(str(text), _LONGEST_SAID).split() if not any(map(str.isdigit, word)))
    said = f" ({words})" if words else ""
    wrong = f"refused '{method}' with JSON-RPC error {clean(str(code), 20)}{said}"
    return HandshakeFailed(Reason.BAD_ANSWER, wrong, CHECK_LOGS)


def trouble(failure: ExchangeFailed, secret: str) -> Problem:
    """Return why no usable answer came; `secret` is the Secret whose certificate was expected."""
    message = f"the server {failure}"
    if isinstance(failure, NoAnswer):
        return Problem(Reason.NO_ANSWER, message, "check that it listens on spec.server.port on all interfaces")
    if not isinstance(failure, Distrusted):
        return Problem(Reason.BAD_ANSWER, message, CHECK_ADDRESS)
    if failure.out_of_date:
        return Problem(Reason.BAD_ANSWER, message, f"renew the certificate in Secret '{secret}'")
    wrong = f"the server does not present the certificate of Secret '{secret}'"
    return Problem(Reason.BAD_ANSWER, wrong, "let it serve the tls.crt that is mounted, and restart it after a renewal")
