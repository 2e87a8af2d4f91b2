"""The Orchestrator kind as users write it and as they read it back."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from modelyard.core.conditions import Conditions
from modelyard.core.embedded import (
    PodSecurityContext,
    SecretKeySelector,
)
from modelyard.core.pod_fields import HttpUrl, Image
from modelyard.core.quantities import DURATION_PATTERN
from modelyard.core.resources import Resource
from modelyard.kinds.contract import Column
from modelyard.kinds.shared.discovery import ServiceDiscovery
from modelyard.kinds.shared.gateway_refs import GatewayRef
from modelyard.kinds.shared.pod_settings import ContainerSecurity, MoreEnv, PodResources, PullSecrets
from modelyard.kinds.shared.telemetry import Metrics, Receiver, Traces

RESOURCE = Resource("core.inference-gateway.com", "v1alpha1", "Orchestrator", "orchestrators")

Url = Annotated[HttpUrl, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]


class Telegram(Struct, frozen=True, rename="camel"):
    """The Telegram bot."""

    enabled: Annotated[bool, Meta(description="Whether the bot listens.")]
    token_secret_ref: Annotated[SecretKeySelector, Meta(description="The key of a Secret that holds its token.")]
    allowed_users_secret_ref: Annotated[
        SecretKeySelector | None,
        Meta(description="The key of a Secret with the ids of users, by commas. Without it the bot answers no user."),
    ] = None
    poll_timeout: Annotated[
        str,
        Meta(description="How long one poll waits for messages, such as 30s.", pattern=rf"^$|{DURATION_PATTERN}"),
    ] = ""


class Channels(Struct, frozen=True, rename="camel"):
    """Where the orchestrator listens."""

    telegram: Annotated[Telegram, Meta(description="The Telegram bot.")]
    max_workers: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None, Meta(description="How many messages are worked on side by side.")
    ] = None
    image_retention: Annotated[Count | None, Meta(description="How many images of a conversation are kept.")] = None
    require_approval: Annotated[bool | None, Meta(description="Whether tools wait for a user to approve.")] = None


class GatewaySettings(Struct, frozen=True, rename="camel"):
    """The gateway that the orchestrator asks."""

    url: Annotated[HttpUrl, Meta(description="Its URL, without /v1. Or gatewayRef.")] = ""
    gateway_ref: Annotated[GatewayRef | None, Meta(description="A Gateway of this namespace, instead of url.")] = None
    api_key_secret_ref: Annotated[
        SecretKeySelector | None, Meta(description="The key of a Secret that holds its API key.")
    ] = None


class Model(Struct, frozen=True, rename="camel"):
    """The LLM that the orchestrator thinks with."""

    model: Annotated[str, Meta(description="provider/model.", min_length=1, max_length=512, pattern=r"^\S+$")]
    system_prompt: Annotated[str, Meta(description="What the LLM is told first.", max_length=65536)] = ""


class Tools(Struct, frozen=True, rename="camel"):
    """The tools that come with the program."""

    enabled: Annotated[bool, Meta(description="Whether the LLM may use them.")] = False
    schedule: Annotated[bool, Meta(description="Whether it may plan tasks for later.")] = False


class A2a(Struct, frozen=True, rename="camel"):
    """The agents that get tasks."""

    enabled: Annotated[bool, Meta(description="Whether there are any.")] = False
    agents: Annotated[tuple[Url, ...], Meta(description="Their URLs.", max_length=256)] = ()
    service_discovery: Annotated[
        ServiceDiscovery | None, Meta(description="Agents that are found by their labels.")
    ] = None


class Mcp(Struct, frozen=True, rename="camel"):
    """The tool servers of the orchestrator."""

    enabled: Annotated[bool, Meta(description="Whether there are any.")] = False
    servers: Annotated[tuple[Url, ...], Meta(description="Their URLs, with path.", max_length=256)] = ()
    service_discovery: Annotated[
        ServiceDiscovery | None, Meta(description="MCP objects that are found by their labels.")
    ] = None


class Telemetry(Struct, frozen=True, rename="camel"):
    """Traces and metrics of the orchestrator."""

    enabled: Annotated[bool, Meta(description="Whether there are any.")] = False
    metrics: Annotated[Metrics, Meta(description="Metrics. Only those for a collector are sent.")] = Metrics()
    traces: Annotated[Traces | None, Meta(description="Traces.")] = None
    receiver: Annotated[Receiver, Meta(description="A port at which others send theirs.")] = Receiver()

    @property
    def receiver_port(self) -> int:
        """The port at which others send theirs; 0: it is closed."""
        return self.receiver.port if self.enabled and self.receiver.enabled else 0


class OrchestratorSpec(Struct, frozen=True, rename="camel"):
    """A chat bot that answers with an LLM, tools and agents."""

    image: Annotated[Image, Meta(description="The image of the CLI.", min_length=1)]
    channels: Annotated[Channels, Meta(description="Where it listens.")]
    gateway: Annotated[GatewaySettings, Meta(description="The gateway that it asks.")]
    agent: Annotated[Model, Meta(description="The LLM that it thinks with.")]
    tools: Annotated[Tools, Meta(description="The tools that come with it.")] = Tools()
    a2a: Annotated[A2a, Meta(description="The agents that get tasks.")] = A2a()
    mcp: Annotated[Mcp, Meta(description="Its tool servers.")] = Mcp()
    telemetry: Annotated[Telemetry, Meta(description="Traces and metrics.")] = Telemetry()
    args: Annotated[
        tuple[str, ...],
        Meta(description="Arguments of the CLI. Left out: the daemon, as the version in the image's tag calls it."),
    ] = ()
    env: MoreEnv = ()
    resources: PodResources = None
    image_pull_secrets: PullSecrets = ()
    pod_security_context: Annotated[
        PodSecurityContext | None,
        Meta(
            description="Replaces, field by field, our defaults: user and group 1000, no root, seccomp RuntimeDefault."
        ),
    ] = None
    security_context: ContainerSecurity = None


Urls = Annotated[tuple[Annotated[str, Meta(max_length=2048)], ...], Meta(max_length=1024)]


class OrchestratorStatus(Struct, frozen=True, rename="camel"):
    """What is true of an orchestrator."""

    ready: Annotated[bool, Meta(description="Whether the Ready condition is True.")] = False
    discovered_agents: Annotated[Urls, Meta(description="The URLs of agents that were found by labels, sorted.")] = ()
    discovered_agent_count: Annotated[int, Meta(description="How many these are.")] = 0
    discovered_mcps: Annotated[Urls, Meta(description="The URLs of tool servers that were found by labels.")] = field(
        default=(), name="discoveredMCPs"
    )
    discovered_mcp_count: Annotated[int, Meta(description="How many these are.")] = field(
        default=0, name="discoveredMCPCount"
    )
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[
        Conditions, Meta(description="Available (its pod), Discovered, MCPsDiscovered, Ready, and why.")
    ] = ()


COLUMNS = (
    Column("READY", "boolean", ".status.ready"),
    Column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("AGENTS", "integer", ".status.discoveredAgentCount"),
    Column("MCPS", "integer", ".status.discoveredMCPCount"),
)
