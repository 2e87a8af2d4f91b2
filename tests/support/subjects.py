"""One plain object of each kind that makes children, and of the toy kind, for tests that hold of all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import Struct

from modelyard.core.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    JOB,
    SERVICE,
    SERVICE_ACCOUNT,
    VOLUME_CLAIM,
    Resource,
)
from modelyard.kinds.agent import AGENT
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.mcp import MCP
from modelyard.kinds.orchestrator import ORCHESTRATOR
from modelyard.local.raw_client import RawClient
from tests.support import (
    agents,
    beacons,
    fleets,
    gateways,
    mcps,
    modeldeployments,
    operator_main,
    orchestrators,
    services,
    zerfoos,
)
from tests.support.fleets import HOSTS as INFERENCE_HOSTS
from tests.support.fleets import MODELS as MODEL_ON_HOSTS
from tests.support.recorder import Recorder
from tests.support.services import MODELS, SERVICES
from tests.support.zerfoos import ZERFOOS
from tests.toy import BEACON
from tests.toy.api import FLAG

Json = dict[str, Any]


class Subject(Struct, frozen=True):
    """An object, with what it needs, and what comes of it when nothing goes wrong."""

    resource: Resource
    name: str
    children: tuple[tuple[Resource, str], ...]
    """What is created, each once."""
    written: tuple[Resource, ...]
    """Whose status is written."""
    writes: int
    """How many there are from create to Ready."""
    reasons: frozenset[str]
    """What its Ready condition says on the way."""
    create: Callable[[RawClient, str], Awaitable[Json]]
    until_ready: Callable[[Recorder, str], Awaitable[Json]]
    operator: Callable[[], None] = operator_main.main
    """The program that serves it."""


MCP_SERVER = Subject(
    resource=MCP.resource,
    name="tools",
    children=((DEPLOYMENT, "tools"), (SERVICE, "tools-service")),
    written=(MCP.resource,),
    writes=5,
    reasons=frozenset({"Starting", "WaitingForAnswer", "Ready"}),
    create=mcps.create,
    until_ready=mcps.until_ready,
)
A2A_AGENT = Subject(
    resource=AGENT.resource,
    name="calendar",
    children=((DEPLOYMENT, "calendar"), (SERVICE, "calendar")),
    written=(AGENT.resource,),
    writes=5,
    reasons=frozenset({"Starting", "WaitingForAnswer", "Ready"}),
    create=agents.create,
    until_ready=agents.until_ready,
)
BOT = Subject(
    resource=ORCHESTRATOR.resource,
    name="helper",
    children=((CONFIG_MAP, "helper-agents"), (DEPLOYMENT, "helper")),
    written=(ORCHESTRATOR.resource,),
    writes=4,
    reasons=frozenset({"Starting", "Ready"}),
    create=partial(orchestrators.create, a2a=orchestrators.SEARCH),
    until_ready=orchestrators.until_ready,
)
MODEL_AND_SERVICE = Subject(
    resource=SERVICES,
    name="chat",
    children=((VOLUME_CLAIM, services.CLAIM), (DEPLOYMENT, "chat"), (SERVICE, "chat")),
    written=(MODELS, SERVICES),
    writes=6,
    reasons=frozenset({"Creating", "InferenceReady"}),
    create=services.create_pair,
    until_ready=services.until_service,
)
MODEL_DEPLOYMENT = Subject(
    resource=modeldeployments.RESOURCE,
    # Not that of the InferenceService, whose Deployment and Service are called like it, too.
    name="story",
    children=(
        (VOLUME_CLAIM, "story-weights"),
        (JOB, f"story-download-{modeldeployments.KEY}"),
        (DEPLOYMENT, "story"),
        (SERVICE, "story"),
    ),
    written=(modeldeployments.RESOURCE,),
    writes=9,
    reasons=frozenset({"Creating", "Downloading", "Starting", "PodsReady"}),
    create=partial(modeldeployments.create, name="story"),
    until_ready=partial(modeldeployments.until_running, name="story"),
)
GATEWAY_SERVER = Subject(
    resource=GATEWAY.resource,
    name="edge",
    children=((SERVICE_ACCOUNT, "edge"), (DEPLOYMENT, "edge"), (SERVICE, "edge")),
    written=(GATEWAY.resource,),
    writes=6,
    reasons=frozenset({"Starting", "WaitingForAnswer", "Ready"}),
    create=gateways.create,
    until_ready=gateways.until_ready,
)
TOY = Subject(
    resource=BEACON.resource,
    name="tower",
    children=((FLAG, "tower"), (CONFIG_MAP, "tower")),
    written=(BEACON.resource,),
    writes=7,
    reasons=frozenset({"WaitingForAnswer", "Ready"}),
    create=beacons.create,
    until_ready=beacons.until_ready,
    operator=beacons.main,
)
ZERFOO = Subject(
    resource=ZERFOOS,
    name="chat",
    children=((DEPLOYMENT, "chat-primary"), (SERVICE, "chat-primary"), (SERVICE, "chat-svc")),
    written=(ZERFOOS,),
    writes=5,
    reasons=frozenset({"Starting", "Ready"}),
    create=zerfoos.create,
    until_ready=zerfoos.until_phase,
)
CANARY = Subject(
    resource=ZERFOOS,
    name=zerfoos.TRIAL,
    children=(
        *((DEPLOYMENT, f"trial-{track}") for track in ("primary", "canary", "router")),
        (CONFIG_MAP, "trial-router"),
        *((SERVICE, f"trial-{target}") for target in ("primary", "canary", "router", "svc")),
    ),
    written=(ZERFOOS,),
    writes=16,
    reasons=frozenset({"Starting", "WaitingForPods", "WaitingForRouters"}),
    create=zerfoos.create_canary,
    until_ready=zerfoos.until_weighted,
)
HOST_AND_MODEL = Subject(
    resource=MODEL_ON_HOSTS,
    name="qwen",
    children=((SERVICE, "qwen"), (ENDPOINT_SLICE, fleets.slice_name())),
    written=(MODEL_ON_HOSTS, INFERENCE_HOSTS),
    writes=8,
    reasons=frozenset({"WaitingForAnswer", "Loading", "Ready"}),
    create=fleets.create_pair,
    until_ready=fleets.until_ready,
)
METAL_SERVICE = Subject(
    resource=SERVICES,
    name=fleets.METAL,
    # Not its slice, which is that of its InferenceModel: Kubernetes makes one more for the same Service.
    children=((SERVICE, fleets.METAL), (MODEL_ON_HOSTS, fleets.METAL)),
    written=(MODELS, SERVICES, MODEL_ON_HOSTS, INFERENCE_HOSTS),
    writes=12,
    reasons=frozenset({"Creating", "WaitingForModel", "Loading", "WaitingForMetalAgent", "InferenceReady"}),
    create=fleets.create_metal_service,
    until_ready=fleets.until_metal_ready,
)
SUBJECTS = {
    "mcp": MCP_SERVER,
    "agent": A2A_AGENT,
    "bot": BOT,
    "service": MODEL_AND_SERVICE,
    "zerfoo": ZERFOO,
    "canary": CANARY,
    "deployment": MODEL_DEPLOYMENT,
    "gateway": GATEWAY_SERVER,
    "fleet": HOST_AND_MODEL,
    "metal": METAL_SERVICE,
    "toy": TOY,
}
