"""The Gateway kind as users write it and as they read it back. Its blocks are in `blocks` and `exposure`.

What must hold between fields is in `rules`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from modelyard.core.conditions import Conditions
from modelyard.core.embedded import ResourceRequirements
from modelyard.core.pod_fields import Image, ObjectName
from modelyard.kinds.contract import Column
from modelyard.kinds.gateway.blocks import Auth, Guardrails, McpClient, Provider, Routing, Server, Telemetry
from modelyard.kinds.gateway.exposure import GatewayApi, IngressBlock, ServiceBlock
from modelyard.kinds.shared import autoscale
from modelyard.kinds.shared.discovery import LabelSelector
from modelyard.kinds.shared.gateway_refs import GATEWAY

RESOURCE = GATEWAY

IMAGE = "ghcr.io/inference-gateway/inference-gateway:latest"

Phase = Literal["Pending", "Running", "Failed", "Unknown"]


class ServiceAccount(Struct, frozen=True, rename="camel"):
    """The ServiceAccount that the pods run under. They get no token of it."""

    create: Annotated[bool, Meta(description="Whether it is created.")] = True
    name: Annotated[ObjectName, Meta(description="Its name. Left out: that of the Gateway.")] = ""


class GatewaySpec(Struct, frozen=True, rename="camel"):
    """A proxy that offers the models of many providers under one API."""

    replicas: Annotated[
        int, Meta(description="How many pods. With hpa enabled: how many to start with.", ge=1, le=100)
    ] = 1
    image: Annotated[Image, Meta(description="The container image. Empty: the default.")] = IMAGE
    environment: Annotated[
        Literal["development", "staging", "production"], Meta(description="How much the gateway logs.")
    ] = "production"
    server: Annotated[Server, Meta(description="Where the gateway listens.")] = Server()
    auth: Annotated[Auth, Meta(description="Whether clients need a token.")] = Auth()
    providers: Annotated[tuple[Provider, ...], Meta(description="Who has the models.", max_length=64)] = ()
    service_selector: Annotated[
        LabelSelector | None,
        Meta(description="Offer every InferenceService of this namespace with these labels, as llamacpp/NAME."),
    ] = None
    telemetry: Annotated[Telemetry, Meta(description="Metrics and traces.")] = Telemetry()
    mcp: Annotated[McpClient, Meta(description="Tools that models may call.")] = McpClient()
    routing: Annotated[Routing, Meta(description="Names that stand for several models.")] = Routing()
    guardrails: Annotated[Guardrails, Meta(description="Policies for requests and responses.")] = Guardrails()
    service: Annotated[ServiceBlock, Meta(description="The Service in front of the pods.")] = ServiceBlock()
    ingress: Annotated[IngressBlock, Meta(description="An Ingress that leads to the Service.")] = IngressBlock()
    gateway_api: Annotated[GatewayApi, Meta(description="A route of the Gateway API that leads to the Service.")] = (
        field(default=GatewayApi(), name="gatewayAPI")
    )
    hpa: Annotated[autoscale.HpaSpec, Meta(description="Let the number of pods follow the load.")] = autoscale.HpaSpec()
    service_account: Annotated[ServiceAccount, Meta(description="The ServiceAccount of the pods.")] = ServiceAccount()
    resources: Annotated[
        ResourceRequirements | None,
        Meta(description="CPU and memory. Left out: requests of 100m and 256Mi, limits of 2 and 1Gi."),
    ] = None


class GatewayStatus(Struct, frozen=True, rename="camel"):
    """What is true of a gateway."""

    phase: Annotated[Phase, Meta(description="Pending, Running, Failed or Unknown: the state of the pods.")] = "Pending"
    message: Annotated[str, Meta(description="What the Ready condition says.")] = ""
    ready_replicas: Annotated[int, Meta(description="How many pods are ready.")] = 0
    available_replicas: Annotated[int, Meta(description="How many pods are ready for long enough to count.")] = 0
    url: Annotated[str, Meta(description="Where clients reach it: by the route, the Ingress or the Service.")] = ""
    service_url: Annotated[str, Meta(description="Where pods of the cluster reach it, always by the Service.")] = ""
    provider_summary: Annotated[str, Meta(description="The providers that are enabled and configured.")] = ""
    model_count: Annotated[int, Meta(description="How many models its providers listed.")] = 0
    service_account_name: Annotated[str, Meta(description="The ServiceAccount that the pods run under.")] = ""
    mcp_servers: Annotated[tuple[str, ...], Meta(description="The URLs of its tool servers, sorted.")] = ()
    mcp_server_count: Annotated[int, Meta(description="How many tool servers it has.")] = 0
    checked_template: Annotated[str, Meta(description="Which pod template the check was made with.")] = ""
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[
        Conditions, Meta(description="Available, Progressing, ReplicaFailure, Responding, Ready and others, and why.")
    ] = ()


COLUMNS = (
    Column("PHASE", "string", ".status.phase"),
    Column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("URL", "string", ".status.url"),
    Column("PORT", "integer", ".spec.server.port"),
    Column("PROVIDERS", "string", ".status.providerSummary"),
    Column("MCPS", "integer", ".status.mcpServerCount"),
    Column("MODELS", "integer", ".status.modelCount", wide=True),
)
