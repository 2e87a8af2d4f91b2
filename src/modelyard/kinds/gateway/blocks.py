"""The blocks of a Gateway's spec that become environment of its container: server, auth, providers, telemetry, MCP.

Types only; `api` puts them together, `exposure` has the blocks about the way in. Defaults are those that the
inference-gateway operator documents.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from modelyard.core.embedded import ConfigMapKeySelector, EnvVar, SecretKeySelector
from modelyard.core.pod_fields import HttpUrl, ObjectName
from modelyard.core.quantities import DURATION_PATTERN
from modelyard.kinds.shared.discovery import ServiceDiscovery
from modelyard.kinds.shared.service_refs import ServiceRef
from modelyard.kinds.shared.telemetry import MetricsExporter, Receiver

Duration = Annotated[str, Meta(pattern=DURATION_PATTERN, max_length=32)]
Port = Annotated[int, Meta(ge=1024, le=65535)]
"""A port that a container may listen on without being root."""


class ServerTls(Struct, frozen=True, rename="camel"):
    """Serve HTTPS with a certificate from a Secret."""

    enabled: Annotated[bool, Meta(description="Whether the server speaks HTTPS, on server.port.")] = False
    certificate_ref: Annotated[
        SecretKeySelector | None,
        Meta(description="The certificate. Left out: tls.crt of the Secret inference-gateway-tls."),
    ] = None
    key_ref: Annotated[
        SecretKeySelector | None,
        Meta(description="The private key. Left out: tls.key of the Secret of the certificate."),
    ] = None


class ServerTimeouts(Struct, frozen=True, rename="camel"):
    """How long requests of clients may take."""

    read: Annotated[Duration, Meta(description="For reading a request, and for a whole answer of a provider.")] = "60s"
    write: Annotated[Duration, Meta(description="For writing a response.")] = "60s"
    idle: Annotated[Duration, Meta(description="For a connection without requests.")] = "300s"


class Server(Struct, frozen=True, rename="camel"):
    """Where the gateway listens."""

    host: Annotated[
        str, Meta(description="The address to listen on; never loopback.", min_length=1, max_length=253)
    ] = "0.0.0.0"  # noqa: S104 - inside a pod, where the kubelet and the Service must reach it
    port: Annotated[Port, Meta(description="The port of the container, its probes and, by default, the Service.")] = (
        8080
    )
    timeouts: Annotated[ServerTimeouts, Meta(description="How long requests may take.")] = ServerTimeouts()
    tls: Annotated[ServerTls, Meta(description="Serve HTTPS. Left out: plain HTTP.")] = ServerTls()


class Oidc(Struct, frozen=True, rename="camel"):
    """The OpenID Connect provider that issues the tokens of clients."""

    issuer_url: Annotated[HttpUrl, Meta(description="Its URL. The gateway reads its keys at start.")] = (
        "http://keycloak:8080/realms/inference-gateway-realm"
    )
    client_id: Annotated[
        str, Meta(description="The audience that tokens must be for.", min_length=1, max_length=253)
    ] = "inference-gateway-client"
    client_secret_ref: Annotated[SecretKeySelector | None, Meta(description="The secret of the client.")] = None
    ca_cert_ref: Annotated[
        ConfigMapKeySelector | None, Meta(description="CA certificates (PEM) that the gateway trusts.")
    ] = None


class Auth(Struct, frozen=True, rename="camel"):
    """Whether clients need a token."""

    enabled: Annotated[bool, Meta(description="Every request but /health needs a bearer token.")] = False
    provider: Annotated[
        Literal["oidc", "jwt", "basic"],
        Meta(description="How clients prove who they are. The gateway knows only oidc."),
    ] = "oidc"
    oidc: Annotated[Oidc, Meta(description="Who issues tokens.")] = Oidc()


class Provider(Struct, frozen=True, rename="camel"):
    """A provider of models."""

    name: Annotated[
        str,
        Meta(description="Its name, such as OpenAI or llamacpp, in any case.", min_length=1, max_length=63),
    ]
    enabled: Annotated[bool, Meta(description="false leaves out its variables.")] = True
    env: Annotated[
        tuple[EnvVar, ...],
        Meta(description="Its variables, such as OPENAI_API_KEY. They win over all others.", max_length=64),
    ] = ()
    service_ref: Annotated[
        ServiceRef | None,
        Meta(description="An object of this namespace that serves a model; it becomes the URL of the provider."),
    ] = None


class Metrics(Struct, frozen=True, rename="camel"):
    """The page of metrics for Prometheus."""

    enabled: Annotated[bool, Meta(description="Whether container and Service show its port.")] = False
    port: Annotated[Port, Meta(description="Its port.")] = 9464
    exporter: Annotated[
        MetricsExporter | None, Meta(description="No effect: the gateway serves its metrics, and sends none.")
    ] = None


class Otlp(Struct, frozen=True, rename="camel"):
    """A collector of OpenTelemetry."""

    endpoint: Annotated[HttpUrl, Meta(description="Its URL. Left out: http://localhost:4318.")] = ""
    protocol: Annotated[
        Literal["http/protobuf"], Meta(description="How it is spoken to. The gateway speaks no gRPC.")
    ] = "http/protobuf"


class TracesExporter(Struct, frozen=True, rename="camel"):
    """Where traces are sent."""

    otlp: Annotated[Otlp | None, Meta(description="A collector of OpenTelemetry.")] = None


class Traces(Struct, frozen=True, rename="camel"):
    """Traces of requests."""

    exporter: Annotated[TracesExporter, Meta(description="Where they are sent. Left out: there are none.")] = (
        TracesExporter()
    )


class Telemetry(Struct, frozen=True, rename="camel"):
    """Metrics and traces."""

    enabled: Annotated[bool, Meta(description="Whether the gateway measures anything.")] = False
    metrics: Annotated[Metrics, Meta(description="The page of metrics.")] = Metrics()
    traces: Annotated[Traces, Meta(description="Traces of requests.")] = Traces()
    receiver: Annotated[Receiver, Meta(description="No effect: Orchestrators have one.")] = Receiver()


class HealthCheck(Struct, frozen=True, rename="camel"):
    """How the gateway watches its MCP servers. It has one setting for all of them."""

    enabled: Annotated[bool, Meta(description="Whether it watches.")] = True
    path: Annotated[str, Meta(description="No effect: the gateway asks by MCP.", pattern="^/", max_length=1024)] = (
        "/health"
    )
    interval: Annotated[Duration, Meta(description="How often. Of several servers the shortest counts.")] = "30s"


class McpServer(Struct, frozen=True, rename="camel"):
    """A tool server."""

    name: Annotated[str, Meta(description="What it is called.", min_length=1, max_length=253)]
    url: Annotated[HttpUrl, Meta(description="Its URL.", min_length=1)]
    health_check: Annotated[HealthCheck, Meta(description="How it is watched.")] = HealthCheck()


class McpTimeouts(Struct, frozen=True, rename="camel"):
    """How long requests to MCP servers may take."""

    client: Annotated[Duration, Meta(description="For a whole exchange.")] = "10s"
    dial: Annotated[Duration, Meta(description="For the connection.")] = "5s"
    tls_handshake: Annotated[Duration, Meta(description="For TLS.")] = "5s"
    response_header: Annotated[Duration, Meta(description="Until the response begins.")] = "5s"
    request: Annotated[Duration, Meta(description="For one request.")] = "10s"


class McpClient(Struct, frozen=True, rename="camel"):
    """Tools of MCP servers that models may call."""

    enabled: Annotated[bool, Meta(description="Whether the gateway offers tools.")] = False
    expose: Annotated[bool, Meta(description="Whether clients may list the tools.")] = False
    tool_mode: Annotated[
        Literal["selector", "direct"],
        Meta(description="selector: models look tools up; direct: every request lists them all."),
    ] = "selector"
    timeouts: Annotated[McpTimeouts, Meta(description="How long requests to servers may take.")] = McpTimeouts()
    servers: Annotated[tuple[McpServer, ...], Meta(description="Tool servers, by URL.", max_length=256)] = ()
    service_discovery: Annotated[
        ServiceDiscovery | None, Meta(description="Tool servers that are MCP objects, by label.")
    ] = None


class Routing(Struct, frozen=True, rename="camel"):
    """Names of models that stand for several deployments of other names."""

    enabled: Annotated[bool, Meta(description="Whether there are such names.")] = False
    config: Annotated[str, Meta(description="The routing file, as YAML.", max_length=65536)] = ""
    config_map_ref: Annotated[
        ConfigMapKeySelector | None, Meta(description="The routing file, in a ConfigMap, instead of config.")
    ] = None


class PolicyMap(Struct, frozen=True, rename="camel"):
    """A ConfigMap of the namespace."""

    name: Annotated[ObjectName, Meta(description="Its name.")] = ""


class Guardrails(Struct, frozen=True, rename="camel"):
    """Policies that requests and responses are checked against."""

    enabled: Annotated[bool, Meta(description="Whether anything is checked.")] = False
    fail_mode: Annotated[
        Literal["deny", "allow"],
        Meta(description="What happens to a request that cannot be checked: deny is closed, allow is open."),
    ] = "deny"
    external_url: Annotated[HttpUrl, Meta(description="A server that decides.")] = ""
    external_timeout: Annotated[Duration, Meta(description="How long it may take.")] = "5s"
    config_map_ref: Annotated[PolicyMap, Meta(description="A ConfigMap whose keys are policies.")] = PolicyMap()
