"""The wiring of the operator: the only module that imports every layer. Called by `modelyard run`."""

from __future__ import annotations

import asyncio
import base64
import signal
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from modelyard import event_loop
from modelyard.core.checks import Answer
from modelyard.core.checks.agent_card import AgentCard
from modelyard.core.checks.engine_load import EngineLoad
from modelyard.core.checks.engine_metrics import EngineMetrics
from modelyard.core.checks.gateway_models import GatewayModels
from modelyard.core.checks.log_tail import LogTail
from modelyard.core.checks.mcp_handshake import McpHandshake
from modelyard.core.checks.remote_weights import RemoteWeights
from modelyard.core.checks.router_report import RouterReport
from modelyard.core.conditions import Problem
from modelyard.core.hosts import HostProbe, LoadModel, UnloadModel
from modelyard.core.reasons import Reason
from modelyard.core.resources import SECRET, Key
from modelyard.kinds import served
from modelyard.kube.client import Client
from modelyard.kube.errors import Forbidden, KubeError, NotFound
from modelyard.kube.log_tail import tail_log
from modelyard.kube.transport import HttpTransport
from modelyard.net.addresses import Permitted, permitted
from modelyard.net.agent_card import fetch_card
from modelyard.net.attempts import Attempts
from modelyard.net.dns import resolver
from modelyard.net.engine_load import read_load
from modelyard.net.engine_metrics import read_metrics
from modelyard.net.gateway_models import ask_gateway
from modelyard.net.hosts.hosts import Hosts
from modelyard.net.hosts.verdicts import HostFailed
from modelyard.net.http_exchange import in_cluster
from modelyard.net.mcp import handshake
from modelyard.net.poller import Poller
from modelyard.net.router_report import ask_routers
from modelyard.net.source_check import SourceChecker
from modelyard.net.ssrf_guard import Guard
from modelyard.runtime.manager import Operator, Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from modelyard.core.checks import Check
    from modelyard.core.hosts import SecretKey
    from modelyard.kube.connection import Connection
    from modelyard.net.http_exchange import Locate
    from modelyard.net.poller import Answerer
    from modelyard.runtime.dependents import Item
    from modelyard.runtime.engine_figures import Server
    from modelyard.runtime.metrics import Metrics


_log = structlog.get_logger()


def run(settings: Settings, connection: Connection, locate: Locate = in_cluster) -> None:
    """Run the operator until it is told to stop. ValueError: an entry of the policy's hosts makes no sense."""
    policy = settings.policy
    remote = permitted(policy.remote_hosts)
    hosts = remote if policy.host_networks is None else permitted(policy.host_networks)
    event_loop.run(_run(settings, connection, locate, remote, hosts))


async def _run(settings: Settings, connection: Connection, locate: Locate, remote: Permitted, hosts: Permitted) -> None:
    async with resolver() as resolve:
        guard = Guard(resolve, remote, api_server=connection.server)
        await _operate(settings, connection, locate, guard, msgspec.structs.replace(guard, exceptions=hosts))


async def _operate(settings: Settings, connection: Connection, locate: Locate, guard: Guard, hosts: Guard) -> None:
    def connect(metrics: Metrics) -> Client:
        return Client(HttpTransport(connection), observe=metrics.requested)

    @cache
    def hosts_of(client: Client) -> Hosts:
        # One for both pollers: of a name with several addresses, the one is called that answers probes.
        return Hosts(hosts, partial(read_secret, client))

    def poll(client: Client, wake: Callable[[Item], None]) -> Poller:
        answering = answerers(client, guard, hosts_of(client), locate)
        return Poller(answering, wake, lane_of=lambda item: item.key.namespace)

    def call(client: Client, wake: Callable[[Item], None]) -> Poller:
        return Poller(callers(hosts_of(client)), wake, lane_of=lambda item: item.key.namespace, outset=Attempts())

    def measure(wake: Callable[[Server], None]) -> Poller:
        # No kind asks this: figures change all the time, and each change would reconcile an object.
        answering: dict[type[Check], Answerer] = {EngineMetrics: partial(read_metrics, where=locate)}
        return Poller(answering, wake, lane_of=lambda server: server.owner.namespace)

    measured = measure if settings.engine_metrics else None
    operator = Operator(served(settings.policy), settings, connect, poll, call, measured)
    asyncio.get_running_loop().set_exception_handler(unhandled)
    task = asyncio.ensure_future(operator.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return


def answerers(client: Client, guard: Guard, hosts: Hosts, locate: Locate) -> dict[type[Check], Answerer]:
    """Return what answers each type of check. A new type is registered here and nowhere else."""
    return {
        AgentCard: partial(read_card, client, guard.exceptions, locate=locate),
        GatewayModels: partial(list_models, client, locate=locate),
        McpHandshake: partial(shake_hands, client, locate=locate),
        RemoteWeights: SourceChecker(guard).check,
        LogTail: partial(tail_log, client),
        EngineLoad: partial(read_load, where=locate),
        RouterReport: partial(ask_routers, where=locate),
        HostProbe: hosts.probe,
    }


def callers(hosts: Hosts) -> dict[type[Check], Answerer]:
    """Return what makes each type of call. A new type is registered here and nowhere else."""
    return {LoadModel: hosts.load, UnloadModel: hosts.unload}


def unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors of tasks that nothing awaits. A connection that breaks while it is being closed is logged as debug."""
    if "protocol" in context:
        _log.debug("a connection ended badly", error=repr(context.get("exception")))
    else:
        _log.error("internal error", what=context.get("message"), exc_info=context.get("exception"))


async def shake_hands(client: Client, check: McpHandshake, locate: Locate) -> Answer:
    """Answer `McpHandshake`: read the certificate that the server must present, then do the handshake."""

    async def ask(trust: str | None) -> Answer:
        return await handshake(check, where=locate, trust=trust)

    return await _with_certificates(client, check, ask)


async def read_card(client: Client, exceptions: Permitted, check: AgentCard, locate: Locate) -> Answer:
    """Answer `AgentCard`: read the certificate that the agent must present, then its card."""

    async def ask(trust: str | None) -> Answer:
        return await fetch_card(check, exceptions, where=locate, trust=trust)

    return await _with_certificates(client, check, ask)


async def list_models(client: Client, check: GatewayModels, locate: Locate) -> Answer:
    """Answer `GatewayModels`: read the certificate that the gateway must present, then ask for its models."""

    async def ask(trust: str | None) -> Answer:
        return await ask_gateway(check, where=locate, trust=trust)

    return await _with_certificates(client, check, ask)


async def _with_certificates(
    client: Client, check: AgentCard | GatewayModels | McpHandshake, ask: Callable[[str | None], Awaitable[Answer]]
) -> Answer:
    """Return the answer of a server that is asked with the certificates it must present."""
    try:
        trust = await _certificates(client, check)
    except Forbidden as error:
        return Answer(False, Reason.FORBIDDEN, str(error))
    except KubeError:
        return Answer(False, Reason.API_UNAVAILABLE, "the Secret with the certificate cannot be read at the moment")
    return await ask(trust)


async def _certificates(client: Client, check: AgentCard | GatewayModels | McpHandshake) -> str | None:
    """Return the certificates (PEM) that the server must present; None: plain HTTP, or the Secret does not exist.

    The private key of the Secret never leaves this function.
    """
    if not check.trust:
        return None
    try:
        data = (await client.get(SECRET, Key(check.service.namespace, check.trust))).part("data")
    except NotFound:
        return None
    own = check.certificate if isinstance(check, GatewayModels) else "tls.crt"
    return "\n".join(
        base64.b64decode(data[name]).decode(errors="replace") for name in (own, "ca.crt") if data.get(name)
    )


async def read_secret(client: Client, namespace: str, wanted: SecretKey) -> str:
    """Return a value of a Secret, for a request to a host. HostFailed: it is not there, or cannot be read now."""
    try:
        data = (await client.get(SECRET, Key(namespace, wanted.name))).part("data")
    except NotFound as error:
        what = f"the Secret {wanted.name} does not exist in this namespace"
        raise HostFailed(Problem(Reason.SECRET_NOT_FOUND, what, f"create it with the key {wanted.key}")) from error
    except Forbidden as error:
        raise HostFailed(Problem(Reason.FORBIDDEN, str(error), "apply deploy/rbac.yaml of this version")) from error
    except KubeError as error:
        what = f"the Secret {wanted.name} cannot be read at the moment"
        raise HostFailed(Problem(Reason.API_UNAVAILABLE, what, "it is tried again")) from error
    if not data.get(wanted.key):
        what = f"the Secret {wanted.name} lacks {wanted.key}"
        raise HostFailed(Problem(Reason.SECRET_KEY_MISSING, what, "add it, or name another key"))
    return base64.b64decode(data[wanted.key]).decode(errors="replace")
