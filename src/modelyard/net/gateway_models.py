"""Answers `GatewayModels`: asks a gateway for its health, then for the models of each provider.

A gateway leaves providers that fail out of its list of all models, so each is asked for by itself: only then a wrong
key or a provider that cannot be reached has a name. The gateway is not trusted: nothing that it sends is shown, and
the same trouble gives the same text each time.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from modelyard.core.checks import Answer
from modelyard.core.checks.gateway_models import GatewayModels
from modelyard.core.reasons import Reason
from modelyard.net.http_exchange import Distrusted, ExchangeFailed, Locate, NoAnswer, TooLong, conversation, in_cluster
from modelyard.net.tls_trust import NoCertificate, tls_contexts

_HEALTH: Final = "/health"
_MODELS: Final = "/v1/models"
_HEADERS: Final = {"Accept": "application/json"}
_FIX_PROVIDER: Final = "check its key and its URL in spec.providers"
_UNHEARD: Final = "lists no model of spec.serviceSelector yet; wait, or look at the logs of the proxy's pods"
_LOGS: Final = "look at the logs of its pods"
_TRUST: Final = "let it serve the certificate that is mounted, and restart it after a renewal"

_log = structlog.get_logger(__name__)


class _ModelList(Struct, frozen=True):
    data: list[Any] | None = None


class _Listed(Struct, frozen=True):
    """What a gateway says of one provider."""

    provider: str
    models: int = 0
    wrong: str = ""
    """Why its models cannot be listed; empty: they can."""


class _Connection(Struct, frozen=True):
    """How a gateway is asked, once it is known which certificate it presents."""

    check: GatewayModels
    where: Locate
    tls: ssl.SSLContext | None
    deadline: float

    async def get(self, path: str) -> tuple[int, bytes]:
        """Return status and body of a page. A connection for each: the providers are asked for side by side."""
        async with (
            conversation(self.check.service, path, self.where, self.tls, self.deadline) as peer,
            peer.send("GET", _HEADERS) as reply,
        ):
            return reply.status, await reply.read()


async def ask_gateway(check: GatewayModels, where: Locate = in_cluster, trust: str | None = None) -> Answer:
    """Return how many models a gateway offers, or why that could not be found out, within `check.timeout` seconds.

    `trust` is the PEM text of the certificate that it must present; None: the Secret does not exist.
    """
    deadline = asyncio.get_running_loop().time() + check.timeout
    try:
        contexts = tls_contexts(trust or "") if check.trust else (None,)
        connected, status = await _greeted(check, where, contexts, deadline)
    except NoCertificate:
        message = f"the gateway cannot be asked: Secret '{check.trust}' holds no certificate"
        return Answer(False, Reason.SECRET_KEY_MISSING, f"{message}; put it there in PEM form")
    except ExchangeFailed as failure:
        _log.debug("a gateway cannot be asked", service=check.service.host, detail=failure.detail)
        return _trouble(failure)
    if not 200 <= status < 300:
        return Answer(False, Reason.BAD_ANSWER, f"the gateway answers {_HEALTH} with HTTP {status}; {_LOGS}")
    if check.needs_token:
        return Answer(True, Reason.ANSWERED, "the gateway answers; its models are not listed, which needs a token")
    return _summary(await asyncio.gather(*(_listed(connected, one) for one in check.providers)), check.offered)


async def _greeted(
    check: GatewayModels, where: Locate, contexts: tuple[ssl.SSLContext | None, ...], deadline: float
) -> tuple[_Connection, int]:
    """Return the way in which the gateway can be asked, and the status of its health page."""
    for context in contexts[:-1]:
        found = _Connection(check, where, context, deadline)
        try:
            return found, (await found.get(_HEALTH))[0]
        except Distrusted:
            continue
    found = _Connection(check, where, contexts[-1], deadline)
    return found, (await found.get(_HEALTH))[0]


async def _listed(connection: _Connection, provider: str) -> _Listed:
    try:
        status, body = await connection.get(f"{_MODELS}?provider={provider}")
    except TooLong:
        return _Listed(provider)  # a provider with much to offer is no broken provider
    except NoAnswer:
        return _Listed(provider, wrong="did not answer in time")
    except ExchangeFailed as failure:
        return _Listed(provider, wrong=str(failure))
    return _Listed(provider, _count(body)) if status == 200 else _Listed(provider, wrong=_refusal(status))


def _count(body: bytes) -> int:
    try:
        return len(msgspec.json.decode(body, type=_ModelList).data or ())
    except (msgspec.DecodeError, RecursionError):
        return 0


def _refusal(status: int) -> str:
    match status:
        case 400:
            return "has no key"
        case 401 | 403:
            return "needs a token of the gateway"
        case 502:
            return "refuses its key, or cannot be reached"
        case 504:
            return "did not answer in time"
        case _:
            return f"is answered for with HTTP {status}"


def _summary(listed: list[_Listed], offered: int) -> Answer:
    failing = ", ".join(f"provider {one.provider} {one.wrong}" for one in listed if one.wrong)
    if failing and all(one.wrong for one in listed):
        return Answer(False, Reason.PROVIDER_FAILING, f"the gateway answers, but {failing}; {_FIX_PROVIDER}")
    count = sum(one.models for one in listed)
    if offered and not count:
        return Answer(False, Reason.WAITING_FOR_ANSWER, f"the gateway answers, but {_UNHEARD}")
    said = f"the gateway answers; models: {count}" if listed else "the gateway answers; it has no provider"
    return Answer(True, Reason.ANSWERED, f"{said}; {failing}: {_FIX_PROVIDER}" if failing else said, {"models": count})


def _trouble(failure: ExchangeFailed) -> Answer:
    message = f"the gateway {failure}"
    if isinstance(failure, NoAnswer):
        return Answer(False, Reason.NO_ANSWER, f"{message}; {_LOGS}")
    remedy = _TRUST if isinstance(failure, Distrusted) else _LOGS
    return Answer(False, Reason.BAD_ANSWER, f"{message}; {remedy}")
