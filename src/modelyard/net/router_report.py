"""Answers `RouterReport`: asks the routers behind a Service what they have loaded and counted.

kube-proxy gives every connection to one of the routers, by chance. So a question is repeated, on a new connection each
time, until every router has answered it, or enough tries make it unlikely that there is another one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from modelyard.core.checks import Answer
from modelyard.core.reasons import Reason
from modelyard.kinds.shared.envoy_router import loaded
from modelyard.kinds.shared.envoy_routes import POD_HEADER, STATS_PATH, VERSION_PATH
from modelyard.kinds.shared.envoy_stats import QUERY, figures_of
from modelyard.kinds.shared.traffic import RouterState
from modelyard.net.http_exchange import ExchangeFailed, conversation

if TYPE_CHECKING:
    from modelyard.core.checks.router_report import RouterReport
    from modelyard.core.checks.service_address import ServiceAddress
    from modelyard.kinds.shared.envoy_stats import Figures
    from modelyard.net.http_exchange import Locate

TIMEOUT_SECONDS: Final = 5.0
TRIES: Final = 16
"""How often a question is repeated for each router. With two, one is missed once in 2,000 million times.

A router that is missed counts as one that has not loaded the weights, so that a service would not be ready for a while.
Two questions every five seconds make twelve million a year."""

_log = structlog.get_logger(__name__)


async def ask_routers(check: RouterReport, where: Locate) -> Answer:
    """Return what each router said, by the name of its pod."""
    deadline = asyncio.get_running_loop().time() + TIMEOUT_SECONDS
    try:
        versions = await _ask_all(check, VERSION_PATH, where, deadline)
        figures = await _ask_all(check, f"{STATS_PATH}?{QUERY}", where, deadline)
    except ExchangeFailed as error:
        _log.debug("a router did not answer", service=str(check.service.name), error=error.detail)
        return Answer(False, Reason.NO_ANSWER, "the routers do not answer")
    states = {
        pod: RouterState(said.version, said.weights, _of_tracks(check, figures[pod]))
        for pod, text in versions.items()
        if (said := loaded(text)) and pod in figures
    }
    if not states:
        return Answer(False, Reason.BAD_ANSWER, "what answers in place of the routers is none")
    return Answer(True, Reason.ANSWERED, "the routers answer", msgspec.to_builtins(states))


def _of_tracks(check: RouterReport, text: bytes) -> dict[str, Figures]:
    return {track: each for track, each in figures_of(text.decode(errors="replace")).items() if track in check.tracks}


async def _ask_all(check: RouterReport, path: str, where: Locate, deadline: float) -> dict[str, bytes]:
    """Return the answer of each router that was reached, by the name of its pod."""
    found: dict[str, bytes] = {}
    for _ in range(TRIES * check.routers):
        pod, text = await _ask(check.service, path, where, deadline)
        found[pod] = text
        if len(found) >= check.routers:
            break
    return found


async def _ask(service: ServiceAddress, path: str, where: Locate, deadline: float) -> tuple[str, bytes]:
    async with conversation(service, path, where, None, deadline) as peer, peer.send("GET", {}) as reply:
        return reply.header(POD_HEADER), await reply.read()
