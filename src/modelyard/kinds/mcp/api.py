"""The MCP kind as users write it and as they read it back."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from modelyard.core.conditions import Conditions
from modelyard.core.embedded import (
    EnvFromSource,
    EnvVar,
)
from modelyard.core.pod_fields import Image, ObjectName
from modelyard.core.quantities import DURATION_PATTERN, seconds
from modelyard.core.resources import Resource
from modelyard.kinds.contract import Column, Rule
from modelyard.kinds.shared import autoscale
from modelyard.kinds.shared.pod_settings import ContainerSecurity, PodResources, PodSecurity, PullSecrets

RESOURCE = Resource("core.inference-gateway.com", "v1alpha1", "MCP", "mcps")

NAME_LIMIT = 55
"""The Service is called `<name>-service`, and Service names end at 63 characters."""


class Tls(Struct, frozen=True, rename="camel"):
    """Serve HTTPS with a certificate from a Secret."""

    secret_name: Annotated[
        ObjectName, Meta(description="The Secret that holds tls.crt and tls.key. Required while enabled.")
    ] = ""
    enabled: Annotated[bool, Meta(description="Whether the server speaks HTTPS.")] = True


class Server(Struct, frozen=True, rename="camel"):
    """How the MCP server is started and where it listens."""

    port: Annotated[int, Meta(description="The port the server listens on.", ge=1, le=65535)] = 8080
    path: Annotated[str, Meta(description="The path of the MCP endpoint.", pattern=r"^/[^\s?#]*$", max_length=1024)] = (
        "/mcp"
    )
    command: Annotated[
        tuple[str, ...], Meta(description="The program to run instead of the image's own.", max_length=64)
    ] = ()
    args: Annotated[tuple[str, ...], Meta(description="Arguments of the program.", max_length=256)] = ()
    timeout: Annotated[
        str,
        Meta(description="How long a request may take, such as 30s or 1m30s.", pattern=DURATION_PATTERN, max_length=32),
    ] = "30s"
    tls: Annotated[Tls | None, Meta(description="Serve HTTPS. Left out: plain HTTP.")] = None


class McpSpec(Struct, frozen=True, rename="camel"):
    """A tool server that speaks the Model Context Protocol over HTTP."""

    image: Annotated[Image, Meta(description="The container image. node:lts needs server.command.", min_length=1)] = (
        "node:lts"
    )
    replicas: Annotated[
        int, Meta(description="How many pods. With hpa enabled: how many to start with; 0 for none.", ge=0, le=1000)
    ] = 1
    server: Annotated[Server, Meta(description="How the server is started and where it listens.")] = Server()
    hpa: Annotated[autoscale.HpaSpec, Meta(description="Let the number of pods follow the load.")] = autoscale.HpaSpec()
    env: Annotated[
        tuple[EnvVar, ...], Meta(description="Environment of the server; it wins over ours.", max_length=256)
    ] = ()
    env_from: Annotated[
        tuple[EnvFromSource, ...], Meta(description="Secrets and ConfigMaps that become environment.", max_length=64)
    ] = ()
    resources: PodResources = None
    image_pull_secrets: PullSecrets = ()
    pod_security_context: PodSecurity = None
    security_context: ContainerSecurity = None


class ServerReport(Struct, frozen=True, rename="camel"):
    """What the server said of itself in the latest handshake."""

    name: Annotated[str, Meta(description="Its name.", max_length=256)] = ""
    version: Annotated[str, Meta(description="Its version.", max_length=256)] = ""
    protocol_version: Annotated[str, Meta(description="The protocol version agreed on.", max_length=64)] = ""


class McpStatus(Struct, frozen=True, rename="camel"):
    """What is true of an MCP server."""

    ready: Annotated[bool, Meta(description="Whether the Ready condition is True.")] = False
    url: Annotated[str, Meta(description="Where the server is reached from within the cluster.")] = ""
    replicas: Annotated[int, Meta(description="How many pods there should be now.")] = 0
    ready_replicas: Annotated[int, Meta(description="How many pods are ready.")] = 0
    server: Annotated[ServerReport | None, Meta(description="What the server said of itself.")] = None
    tool_count: Annotated[int, Meta(description="How many tools it offers.")] = 0
    tools: Annotated[tuple[str, ...], Meta(description="Their names, at most 100.", max_length=100)] = ()
    checked_template: Annotated[str, Meta(description="Which pod template the handshake was made with.")] = ""
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[
        Conditions, Meta(description="Available (pods), Responding (handshake), Ready (both), and why.")
    ] = ()


COLUMNS = (
    Column("READY", "boolean", ".status.ready"),
    Column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("URL", "string", ".status.url"),
    Column("TOOLS", "integer", ".status.toolCount", wide=True),
)

_NAME_RULE = Rule(
    cel=f"self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= {NAME_LIMIT}",
    message=f"metadata.name must begin with a letter, hold only a-z, 0-9 and '-', and have at most {NAME_LIMIT} "
    "characters, because the Service is called <name>-service",
    field="metadata.name",
    holds=lambda _, meta: len(meta.name) <= NAME_LIMIT and "." not in meta.name and meta.name[:1].isalpha(),
    at="",
)

_TIMEOUT_RULE = Rule(
    cel="duration(self) > duration('0s') && duration(self) <= duration('1h')",
    message="spec.server.timeout must be longer than 0s and at most 1h",
    field="spec.server.timeout",
    holds=lambda spec, _: 0 < seconds(spec.server.timeout) <= 3600,
)

_TLS_RULE = Rule(
    cel="!self.enabled || (has(self.secretName) && self.secretName != '')",
    message="spec.server.tls.secretName must name the Secret that holds tls.crt and tls.key while TLS is enabled",
    field="spec.server.tls.secretName",
    holds=lambda spec, _: spec.server.tls is None or not spec.server.tls.enabled or spec.server.tls.secret_name != "",
    at="spec.server.tls",
)

RULES = (_NAME_RULE, _TIMEOUT_RULE, _TLS_RULE, *autoscale.RULES)
