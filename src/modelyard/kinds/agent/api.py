"""The Agent kind as users write it and as they read it back."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta, Struct, field

from modelyard.core import names
from modelyard.core.conditions import Conditions
from modelyard.core.embedded import (
    SecretKeySelector,
)
from modelyard.core.pod_fields import HttpUrl, Image, ObjectName
from modelyard.core.quantities import DURATION_PATTERN
from modelyard.core.resources import Resource
from modelyard.kinds.contract import Column, Rule
from modelyard.kinds.shared.gateway_refs import GatewayRef
from modelyard.kinds.shared.pod_settings import ContainerSecurity, MoreEnv, PodResources, PodSecurity, PullSecrets
from modelyard.kinds.shared.service_refs import ServiceRef
from modelyard.kinds.shared.telemetry import Metrics, Receiver, Traces

_ANY_HOST = "0.0.0.0"  # noqa: S104 - inside a pod, where the kubelet and the Service must reach it

RESOURCE = Resource("core.inference-gateway.com", "v1alpha1", "Agent", "agents")

Duration = Annotated[str, Meta(pattern=DURATION_PATTERN, max_length=32)]
Word = Annotated[str, Meta(max_length=64, pattern=r"^\S*$")]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]


class Card(Struct, frozen=True, rename="camel"):
    """What the agent publishes of itself."""

    url: Annotated[HttpUrl, Meta(description="Where others reach the agent. Left out: at its Service.")] = ""


class Logging(Struct, frozen=True, rename="camel"):
    """What the agent logs."""

    level: Annotated[Word, Meta(description="How much: debug, info, warn or error.")] = "info"
    format: Annotated[Word, Meta(description="In which form: json or text.")] = "json"


class Telemetry(Struct, frozen=True, rename="camel"):
    """Traces and metrics of the agent."""

    enabled: Annotated[bool, Meta(description="Whether there are any.")] = False
    metrics: Annotated[Metrics, Meta(description="Metrics.")] = Metrics()
    traces: Annotated[Traces | None, Meta(description="Traces.")] = None
    receiver: Annotated[Receiver, Meta(description="No effect: an agent receives none.")] = Receiver()


class Queue(Struct, frozen=True, rename="camel"):
    """The queue of tasks."""

    enabled: Annotated[bool, Meta(description="Whether these settings apply.")] = False
    max_size: Annotated[Count, Meta(description="How many tasks may wait; 0: the agent's own limit.")] = 0
    cleanup_interval: Annotated[
        str,
        Meta(description="How often ended tasks are removed, such as 5m.", pattern=rf"^$|{DURATION_PATTERN}"),
    ] = ""


class McpClient(Struct, frozen=True, rename="camel"):
    """The tool servers that the agent uses."""

    enabled: Annotated[bool, Meta(description="Whether it uses any.")] = False
    servers: Annotated[
        tuple[Annotated[HttpUrl, Meta(min_length=1)], ...], Meta(description="Their URLs, without path.", max_length=64)
    ] = ()
    endpoint: Annotated[str, Meta(description="The path of MCP on each.", pattern=r"^/\S*$", max_length=1024)] = "/mcp"
    refresh_interval: Annotated[Duration, Meta(description="How often their tools are listed.")] = "5m"
    dial_timeout: Annotated[Duration, Meta(description="How long a connection may take.")] = "30s"
    call_timeout: Annotated[Duration, Meta(description="How long a tool may take.")] = "30s"
    max_retries: Annotated[Count, Meta(description="How often a connection is tried; 0: for ever.")] = 0
    retry_interval: Annotated[Duration, Meta(description="The first pause between two tries.")] = "2s"
    retry_max_interval: Annotated[Duration, Meta(description="The longest pause between two tries.")] = "30s"


class Tls(Struct, frozen=True, rename="camel"):
    """TLS with the certificate of a Secret."""

    enabled: Annotated[bool, Meta(description="Whether TLS is spoken.")] = False
    secret_ref: Annotated[ObjectName, Meta(description="The Secret that holds tls.crt and tls.key.")] = ""

    @property
    def secret(self) -> str:
        """The name of the Secret; empty: TLS is off, or needs none."""
        return self.secret_ref if self.enabled else ""


class ApiKey(Struct, frozen=True, rename="camel"):
    """The older form of `llm.apiKeySecretRef`."""

    secret_ref: Annotated[
        ObjectName, Meta(description="A Secret that holds the key of the LLM as apiKey. May be missing.")
    ] = ""


class Header(Struct, frozen=True, rename="camel"):
    """A header of requests to the LLM."""

    name: Annotated[str, Meta(description="Its name.", pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", max_length=256)]
    # Agents read all headers from one variable, in which commas separate them.
    value: Annotated[str, Meta(description="Its value, without commas.", pattern=r"^[^,\r\n]*$", max_length=4096)]


class Llm(Struct, frozen=True, rename="camel"):
    """The LLM that the agent thinks with."""

    # The rule of renaming would make baseUrl of it.
    base_url: Annotated[HttpUrl, Meta(description="Its URL, with /v1. Usually that of a gateway.")] = field(
        default="", name="baseURL"
    )
    service_ref: Annotated[
        ServiceRef | None, Meta(description="An object of this namespace that serves the model, instead of baseURL.")
    ] = None
    gateway_ref: Annotated[GatewayRef | None, Meta(description="A Gateway of this namespace, instead of baseURL.")] = (
        None
    )
    model: Annotated[str, Meta(description="The model, as provider/model.", max_length=512, pattern=r"^\S*$")] = ""
    max_tokens: Annotated[Count, Meta(description="The longest answer, in tokens.")] = 4096
    temperature: Annotated[
        str, Meta(description="The randomness of answers, such as 0.7.", pattern=r"^[0-9]{1,3}(\.[0-9]{1,6})?$")
    ] = "0.7"
    custom_headers: Annotated[tuple[Header, ...], Meta(description="Headers of requests.", max_length=64)] = ()
    system_prompt: Annotated[str, Meta(description="What the LLM is told first.", max_length=65536)] = ""
    api_key_secret_ref: Annotated[
        SecretKeySelector | None, Meta(description="The key of a Secret that holds the API key.")
    ] = None


class Brain(Struct, frozen=True, rename="camel"):
    """How the agent works on a task with its LLM."""

    enabled: Annotated[bool, Meta(description="Whether it uses an LLM, for images that ask.")] = False
    tls: Annotated[Tls, Meta(description="TLS towards the LLM: a client certificate, and ca.crt to trust.")] = Tls()
    max_conversation_history: Annotated[Count, Meta(description="How many messages it remembers.")] = 10
    max_chat_completion_iterations: Annotated[Count, Meta(description="How often it asks the LLM for a task.")] = 5
    max_retries: Annotated[Count, Meta(description="How often it asks again after an error.")] = 3
    api_key: Annotated[ApiKey, Meta(description="The older form of llm.apiKeySecretRef.")] = ApiKey()
    llm: Annotated[Llm, Meta(description="The LLM.")] = Llm()


class AgentSpec(Struct, frozen=True, rename="camel"):
    """An A2A agent: a server that others give tasks to."""

    image: Annotated[Image, Meta(description="The container image of the agent.", min_length=1)]
    card: Annotated[Card, Meta(description="What the agent publishes of itself.")] = Card()
    timezone: Annotated[Word, Meta(description="The time zone of the agent, such as Europe/Berlin.")] = "UTC"
    port: Annotated[int, Meta(description="The port the agent listens on.", ge=1, le=65535)] = 8080
    host: Annotated[str, Meta(description="The address it listens on.", max_length=253, pattern=r"^\S*$")] = _ANY_HOST
    read_timeout: Annotated[Duration, Meta(description="How long it reads a request.")] = "30s"
    write_timeout: Annotated[Duration, Meta(description="How long it writes a response.")] = "30s"
    idle_timeout: Annotated[Duration, Meta(description="How long it keeps an idle connection.")] = "60s"
    logging: Annotated[Logging, Meta(description="What it logs.")] = Logging()
    telemetry: Annotated[Telemetry, Meta(description="Traces and metrics.")] = Telemetry()
    queue: Annotated[Queue, Meta(description="The queue of tasks.")] = Queue()
    mcp: Annotated[McpClient, Meta(description="The tool servers that it uses.")] = McpClient()
    tls: Annotated[Tls, Meta(description="Serve HTTPS.")] = Tls()
    agent: Annotated[Brain, Meta(description="How it works on a task with its LLM.")] = Brain()
    env: MoreEnv = ()
    resources: PodResources = None
    image_pull_secrets: PullSecrets = ()
    pod_security_context: PodSecurity = None
    security_context: ContainerSecurity = None

    @property
    def scheme(self) -> str:
        """The scheme of the agent's URL."""
        return "https" if self.tls.secret else "http"


Text = Annotated[str, Meta(max_length=2048)]
Texts = Annotated[tuple[Text, ...], Meta(max_length=64)]


class SkillReport(Struct, frozen=True, rename="camel"):
    """One skill of a card."""

    id: Annotated[Text, Meta(description="Its id.")] = ""
    name: Annotated[Text, Meta(description="Its name.")] = ""
    description: Annotated[Text, Meta(description="What it is good for.")] = ""
    tags: Annotated[Texts, Meta(description="Words that describe it.")] = ()
    examples: Annotated[Texts, Meta(description="Tasks that it can do.")] = ()
    input_modes: Annotated[Texts, Meta(description="The media types it takes.")] = ()
    output_modes: Annotated[Texts, Meta(description="The media types it returns.")] = ()


class CapabilitiesReport(Struct, frozen=True, rename="camel"):
    """What an agent can do besides answering."""

    streaming: Annotated[bool, Meta(description="Whether it streams its answers.")] = False
    push_notifications: Annotated[bool, Meta(description="Whether it tells clients of progress.")] = False
    state_transition_history: Annotated[bool, Meta(description="Whether it keeps the states of a task.")] = False


class CardReport(Struct, frozen=True, rename="camel"):
    """The card of an agent, cut to what is of use in a status."""

    name: Annotated[Text, Meta(description="The name of the agent.")] = ""
    version: Annotated[Text, Meta(description="Its version.")] = ""
    description: Annotated[Text, Meta(description="What it is good for.")] = ""
    url: Annotated[Text, Meta(description="Where it says that clients reach it.")] = ""
    documentation_url: Annotated[Text, Meta(description="Where it is described.")] = ""
    default_input_modes: Annotated[Texts, Meta(description="The media types it takes.")] = ()
    default_output_modes: Annotated[Texts, Meta(description="The media types it returns.")] = ()
    capabilities: Annotated[CapabilitiesReport, Meta(description="What it can do besides answering.")] = (
        CapabilitiesReport()
    )
    skills: Annotated[tuple[SkillReport, ...], Meta(description="Its skills, at most 64.", max_length=64)] = ()
    skills_names: Annotated[Text, Meta(description="The names of its skills.")] = ""


class AgentStatus(Struct, frozen=True, rename="camel"):
    """What is true of an agent."""

    ready: Annotated[bool, Meta(description="Whether the Ready condition is True.")] = False
    url: Annotated[str, Meta(description="Where the agent is reached from within the cluster.")] = ""
    card: Annotated[CardReport | None, Meta(description="The card that was read last.")] = None
    checked_template: Annotated[str, Meta(description="Which pod template the last check was made with.")] = ""
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[
        Conditions, Meta(description="Available (pods), CardFetched (the card), Ready (both), and why.")
    ] = ()


COLUMNS = (
    Column("READY", "boolean", ".status.ready"),
    Column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("VERSION", "string", ".status.card.version"),
    Column("URL", "string", ".status.card.url"),
    Column("STREAMING", "boolean", ".status.card.capabilities.streaming"),
    Column("PUSH NOTIFICATIONS", "boolean", ".status.card.capabilities.pushNotifications", wide=True),
    Column("STATE TRANSITION HISTORY", "boolean", ".status.card.capabilities.stateTransitionHistory", wide=True),
)


def service_url(name: str, namespace: str, spec: AgentSpec) -> str:
    """Return the URL of the Service of an Agent inside the cluster."""
    return f"{spec.scheme}://{names.service_host(name, namespace)}:{spec.port}"


def agent_url(name: str, namespace: str, spec: AgentSpec) -> str:
    """Return the URL under which others are told to reach an Agent."""
    return spec.card.url or service_url(name, namespace, spec)


def container_ports(spec: AgentSpec) -> dict[str, int]:
    """Return the ports of the container by name: of the agent, and of its page of metrics if it has one."""
    page = spec.telemetry.metrics.page if spec.telemetry.enabled else None
    return {"http": spec.port, **({"metrics": page.port} if page else {})}


_NAME_RULE = Rule(
    cel="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",
    message="metadata.name must begin with a letter, hold only a-z, 0-9 and '-', and have at most 63 characters, "
    "because it is the name of the Service",
    field="metadata.name",
    holds=lambda _, meta: len(meta.name) <= 63 and "." not in meta.name and meta.name[:1].isalpha(),
    at="",
)
_HOST_RULE = Rule(
    cel="!self.startsWith('127.') && !(self in ['localhost', '::1'])",
    message="spec.host must not be loopback: neither probes nor the Service would reach the agent",
    field="spec.host",
    holds=lambda spec, _: not spec.host.startswith("127.") and spec.host not in ("localhost", "::1"),
)
_ASTRAY = r"^https?://(localhost|127[.]|0[.]0[.]0[.]0|169[.]254[.]|metadata[.]google[.]|\[(::1?|[fF][eE]80:.*)\])"
"""URLs of loopback, link-local and metadata addresses, in the forms that people write."""
_CARD_RULE = Rule(
    cel=f"!self.matches(r'{_ASTRAY}')",
    message="spec.card.url must not lead clients to themselves or to a metadata service",
    field="spec.card.url",
    holds=lambda spec, _: re.match(_ASTRAY, spec.card.url) is None,
)
_TLS_RULE = Rule(
    cel="!has(self.enabled) || !self.enabled || (has(self.secretRef) && self.secretRef != '')",
    message="spec.tls.secretRef must name the Secret that holds tls.crt and tls.key while TLS is enabled",
    field="spec.tls.secretRef",
    holds=lambda spec, _: not spec.tls.enabled or spec.tls.secret_ref != "",
    at="spec.tls",
)
_LLM_TLS_RULE = Rule(
    cel="!has(self.tls) || !has(self.tls.enabled) || !self.tls.enabled || !has(self.llm) || !has(self.llm.baseURL) || "
    "!self.llm.baseURL.startsWith('http:')",
    message="spec.agent.llm.baseURL must begin with https while spec.agent.tls is enabled",
    field="spec.agent.llm.baseURL",
    holds=lambda spec, _: not spec.agent.tls.enabled or not spec.agent.llm.base_url.startswith("http:"),
    at="spec.agent",
)
_ONE_LLM_RULE = Rule(
    cel="[has(self.baseURL) && self.baseURL != '', has(self.serviceRef), has(self.gatewayRef)]"
    ".filter(e, e).size() <= 1",
    message="spec.agent.llm.baseURL, serviceRef and gatewayRef exclude each other: keep one of them",
    field="spec.agent.llm.baseURL",
    holds=lambda spec, _: _ways_to_the_llm(spec.agent.llm) <= 1,
    at="spec.agent.llm",
)


def _ways_to_the_llm(llm: Llm) -> int:
    return sum((bool(llm.base_url), llm.service_ref is not None, llm.gateway_ref is not None))


_EXPORTER = "self.telemetry.metrics.exporter"
_PORTS_RULE = Rule(
    cel="!has(self.telemetry) || !has(self.telemetry.enabled) || !self.telemetry.enabled || "
    f"!has(self.telemetry.metrics) || self.port != (has({_EXPORTER}) && has({_EXPORTER}.prometheus) ? "
    f"{_EXPORTER}.prometheus.port : self.telemetry.metrics.enabled && !(has({_EXPORTER}) && has({_EXPORTER}.otlp)) ? "
    "self.telemetry.metrics.port : 0)",
    message="spec.port must be another port than that of the metrics in spec.telemetry",
    field="spec.port",
    holds=lambda spec, _: len(set(container_ports(spec).values())) == len(container_ports(spec)),
    at="spec",
)
_KEY_RULE = Rule(
    cel="!has(self.apiKeySecretRef) || (has(self.apiKeySecretRef.name) && self.apiKeySecretRef.name != '')",
    message="spec.agent.llm.apiKeySecretRef.name must name the Secret that holds the API key",
    field="spec.agent.llm.apiKeySecretRef.name",
    holds=lambda spec, _: (
        spec.agent.llm.api_key_secret_ref is None or bool(spec.agent.llm.api_key_secret_ref.get("name"))
    ),
    at="spec.agent.llm",
)

RULES = (_NAME_RULE, _HOST_RULE, _CARD_RULE, _TLS_RULE, _LLM_TLS_RULE, _ONE_LLM_RULE, _PORTS_RULE, _KEY_RULE)
