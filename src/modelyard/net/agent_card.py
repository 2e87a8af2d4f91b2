"""Answers `AgentCard`: reads the card of an A2A agent, and reduces it to what a status shows.

The agent is not trusted: time and bytes are bounded, and what it sends is cut and cleaned before it is shown. No URL in
a card is ever followed. Those that clients follow must not lead them to themselves or to a metadata service.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from msgspec import Struct
from yarl import URL

from modelyard.core.checks import Answer
from modelyard.core.conditions import Problem
from modelyard.core.errors import ModelyardError
from modelyard.core.reasons import Reason
from modelyard.core.text import clean
from modelyard.net.addresses import Permitted, advertisable
from modelyard.net.http_exchange import Distrusted, ExchangeFailed, NoAnswer, TooLong, conversation, in_cluster
from modelyard.net.tls_trust import secret_contexts

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from modelyard.core.checks.agent_card import AgentCard
    from modelyard.net.http_exchange import Locate, Reply

PATHS: Final = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Where agents publish their card: the path of A2A 0.3 and newer, and the one before."""

_MOST: Final = 64
_LONG: Final = 2048
_NOT_THERE: Final = frozenset({404, 405, 410})
_CHECK_LOGS: Final = "look at the logs of its pods"

_log = structlog.get_logger(__name__)

Words = tuple[str, ...] | None


class _Skill(Struct, frozen=True, rename="camel"):
    name: str
    id: str = ""
    description: str | None = ""
    tags: Words = ()
    examples: Words = ()
    input_modes: Words = ()
    output_modes: Words = ()


class _Capabilities(Struct, frozen=True, rename="camel"):
    streaming: bool | None = False
    push_notifications: bool | None = False
    state_transition_history: bool | None = False


class _Interface(Struct, frozen=True):
    url: str


Interfaces = tuple[_Interface, ...] | None


class _Card(Struct, frozen=True, rename="camel"):
    """A card, as far as it is read. Version 1.0 of the protocol has no `url` but only interfaces."""

    name: str
    description: str | None = ""
    version: str | None = ""
    url: str | None = ""
    documentation_url: str | None = ""
    default_input_modes: Words = ()
    default_output_modes: Words = ()
    capabilities: _Capabilities | None = None
    skills: tuple[_Skill, ...] | _Skill | None = ()
    supported_interfaces: Interfaces = ()
    additional_interfaces: Interfaces = ()

    @property
    def urls(self) -> list[str]:
        """Where clients are sent, the preferred URL first."""
        interfaces = (*(self.supported_interfaces or ()), *(self.additional_interfaces or ()))
        return [url for url in (self.url, *(each.url for each in interfaces)) if url]


class _CardFailed(ModelyardError):
    """There is no usable card; `problem` says why, for the status."""

    def __init__(self, reason: Reason, wrong: str, remedy: str) -> None:
        self.problem = Problem(reason, f"the agent {wrong}", remedy)
        super().__init__(self.problem.text)


class _NoCardHere(_CardFailed):
    """There is nothing at this path."""


async def fetch_card(
    check: AgentCard, exceptions: Permitted, where: Locate = in_cluster, trust: str | None = None
) -> Answer:
    """Return the card of an agent, or why there is none, within `check.timeout` seconds.

    `exceptions` are hosts that cards may name although others could not reach them. `trust` is the PEM text of the
    Secret that `check.trust` names; None when it does not exist.
    """
    deadline = asyncio.get_running_loop().time() + check.timeout
    try:
        contexts = secret_contexts(check.trust, trust, "spec.tls.secretRef", _CardFailed)
        for context in contexts[:-1]:
            with suppress(Distrusted):
                return _answer(await _find(check, where, context, deadline), exceptions)
        return _answer(await _find(check, where, contexts[-1], deadline), exceptions)
    except _CardFailed as failure:
        return Answer(False, failure.problem.reason, failure.problem.text)
    except ExchangeFailed as failure:
        _log.debug("agent card could not be read", service=check.service.host, detail=failure.detail)
        problem = _trouble(failure, check.trust)
        return Answer(False, problem.reason, problem.text)


async def _find(check: AgentCard, where: Locate, tls: ssl.SSLContext | None, deadline: float) -> _Card:
    newer, older = PATHS
    try:
        return await _get(check, newer, where, tls, deadline)
    except _CardFailed as failure:
        # A server of web pages answers every path, so anything but a card may be the lack of one.
        with suppress(_NoCardHere):
            return await _get(check, older, where, tls, deadline)
        raise failure from None


async def _get(check: AgentCard, path: str, where: Locate, tls: ssl.SSLContext | None, deadline: float) -> _Card:
    async with (
        conversation(check.service, path, where, tls, deadline) as peer,
        peer.send("GET", {"Accept": "application/json"}) as reply,
    ):
        _check_status(reply)
        return _decoded(await reply.read())


def _check_status(reply: Reply) -> None:
    status = reply.status
    if 200 <= status < 300:
        return
    if status in _NOT_THERE:
        wrong = f"has no card at {' or '.join(PATHS)} (HTTP {status})"
        raise _NoCardHere(Reason.BAD_ANSWER, wrong, "use an image that speaks A2A, and check spec.port")
    if status in (401, 403):
        remedy = "Modelyard's check sends none: let it publish its card without them"
        raise _CardFailed(Reason.UNAUTHORIZED, f"wants credentials for its card (HTTP {status})", remedy)
    if status < 400:
        raise _CardFailed(
            Reason.BAD_ANSWER, f"redirects from its card (HTTP {status}), which is not followed", _CHECK_LOGS
        )
    raise _CardFailed(Reason.BAD_ANSWER, f"answered with HTTP {status} instead of its card", _CHECK_LOGS)


def _decoded(body: bytes) -> _Card:
    try:
        return msgspec.json.decode(body, type=_Card)
    except msgspec.ValidationError as error:
        wrong = f"sends a card that breaks the protocol ({clean(str(error))})"
        raise _CardFailed(Reason.BAD_ANSWER, wrong, "correct the card in its image") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _CardFailed(Reason.BAD_ANSWER, "sends a card that is not JSON", _CHECK_LOGS) from error


def _answer(card: _Card, exceptions: Permitted) -> Answer:
    for url in card.urls:
        _check_url(url, exceptions)
    return Answer(True, Reason.ANSWERED, "the agent published its card", _reduced(card, exceptions))


def _check_url(url: str, exceptions: Permitted) -> None:
    host = _host(url)
    if not host:
        wrong = "names no http or https URL in its card"
        raise _CardFailed(Reason.BAD_ANSWER, wrong, "let it publish the value of A2A_AGENT_URL")
    if not advertisable(host, exceptions):
        wrong = f"sends clients to {clean(host)}, where they would not reach it"
        raise _CardFailed(
            Reason.ADDRESS_NOT_ALLOWED, wrong, "let it publish the value of A2A_AGENT_URL, or set spec.card.url"
        )


def _host(url: str) -> str:
    """Return the host of a URL; empty: it is none that clients could follow."""
    try:
        parsed = URL(url)
        return (parsed.raw_host or "") if parsed.scheme in ("http", "https") and parsed.port else ""
    except ValueError:
        return ""


def _reduced(card: _Card, exceptions: Permitted) -> dict[str, Any]:
    skills = (card.skills,) if isinstance(card.skills, _Skill) else card.skills or ()
    can = card.capabilities or _Capabilities()
    about = _host(card.documentation_url or "")
    return {
        "name": clean(card.name),
        "version": clean(card.version or ""),
        "description": clean(card.description or "", _LONG),
        "url": clean(next(iter(card.urls), ""), _LONG),
        "documentationUrl": clean(card.documentation_url or "", _LONG) if advertisable(about, exceptions) else "",
        "defaultInputModes": _words(card.default_input_modes),
        "defaultOutputModes": _words(card.default_output_modes),
        "capabilities": {name: bool(value) for name, value in msgspec.to_builtins(can).items()},
        "skills": [_skill(skill) for skill in skills[:_MOST]],
        "skillsNames": clean(", ".join(skill.name for skill in skills), _LONG),
    }


def _skill(skill: _Skill) -> dict[str, Any]:
    return {
        "id": clean(skill.id),
        "name": clean(skill.name),
        "description": clean(skill.description or "", _LONG),
        "tags": _words(skill.tags),
        "examples": _words(skill.examples),
        "inputModes": _words(skill.input_modes),
        "outputModes": _words(skill.output_modes),
    }


def _words(words: Iterable[str] | None) -> list[str]:
    return [clean(word) for word in tuple(words or ())[:_MOST]]


def _trouble(failure: ExchangeFailed, secret: str) -> Problem:
    message = f"the agent {failure}"
    match failure:
        case NoAnswer():
            return Problem(Reason.NO_ANSWER, message, "check that it listens on spec.port on all interfaces")
        case TooLong():
            return Problem(Reason.BAD_ANSWER, message, "let it publish a shorter card")
        case Distrusted(out_of_date=True):
            return Problem(Reason.BAD_ANSWER, message, f"renew the certificate in Secret '{secret}'")
        case Distrusted():
            wrong = f"the agent does not present the certificate of Secret '{secret}'"
            return Problem(Reason.BAD_ANSWER, wrong, "let it serve the tls.crt that is mounted")
        case _:
            return Problem(Reason.BAD_ANSWER, message, "check spec.port and spec.tls")
