"""The InferenceHost kind as users write it and as they read it back."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from modelyard.core.conditions import Conditions
from modelyard.core.hosts import MOST_MODELS, HostAddress, ModelState, Protocol, SecretKey
from modelyard.core.quantities import AMOUNT_PATTERN
from modelyard.core.resources import Resource
from modelyard.kinds.contract import Column, Rule

RESOURCE: Final = Resource("modelyard.dev", "v1alpha1", "InferenceHost", "inferencehosts")
DEFAULT_PORT: Final = 11434

_NAME_PATTERN: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_KEY_PATTERN: Final = r"^[-._a-zA-Z0-9]+$"
_AMOUNT_OR_NONE: Final = AMOUNT_PATTERN.replace("^(", "^((", 1).removesuffix("$") + ")?$"


class TokenRef(Struct, frozen=True, rename="camel"):
    """The Secret that holds the token."""

    name: Annotated[str, Meta(description="The name of the Secret.", max_length=253, pattern=_NAME_PATTERN)]
    key: Annotated[str, Meta(description="Which of its keys.", max_length=253, pattern=_KEY_PATTERN)] = "token"


class AuthorityRef(Struct, frozen=True, rename="camel"):
    """The Secret that holds CA certificates."""

    name: Annotated[str, Meta(description="The name of the Secret.", max_length=253, pattern=_NAME_PATTERN)]
    key: Annotated[str, Meta(description="Which of its keys.", max_length=253, pattern=_KEY_PATTERN)] = "ca.crt"


class Auth(Struct, frozen=True, rename="camel"):
    """How the operator shows the host who it is."""

    secret_ref: Annotated[TokenRef, Meta(description="The Secret with the bearer token. It may be rotated.")]


class Tls(Struct, frozen=True, rename="camel"):
    """How the operator knows the host, when its endpoint is https."""

    ca_secret_ref: Annotated[
        AuthorityRef | None, Meta(description="The Secret with the CA certificates. Left out: those of the system.")
    ] = None
    server_name: Annotated[
        str, Meta(description="The name in the certificate. Left out: that of spec.endpoint.", max_length=253)
    ] = ""


class Capacity(Struct, frozen=True, rename="camel"):
    """How much of the host models may take."""

    memory: Annotated[
        str,
        Meta(
            description="Memory for models. Left out: what the host reports.",
            max_length=32,
            pattern=_AMOUNT_OR_NONE,
        ),
    ] = ""
    reserved: Annotated[
        str,
        Meta(description="Memory of it to leave free for other programs.", max_length=32, pattern=_AMOUNT_OR_NONE),
    ] = ""
    max_models: Annotated[
        int, Meta(description=f"How many models at a time; 0 for {MOST_MODELS}.", ge=0, le=MOST_MODELS)
    ] = 0


class InferenceHostSpec(Struct, frozen=True, rename="camel"):
    """A machine outside the cluster that serves models."""

    endpoint: Annotated[
        str,
        Meta(
            description=f"The URL of its daemon: http or https, a host, and a port other than {DEFAULT_PORT}.",
            max_length=512,
            pattern=r"^https?://([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?$",
        ),
    ]
    protocol: Annotated[Protocol, Meta(description="Which daemon it is.")] = Protocol.INFERENCED
    address: Annotated[
        str, Meta(description="The IP address for pods, if it is not that of the endpoint.", max_length=45)
    ] = ""
    auth: Annotated[Auth | None, Meta(description="The token that the operator sends.")] = None
    tls: Annotated[Tls | None, Meta(description="Trust, for an https endpoint.")] = None
    capacity: Annotated[Capacity, Meta(description="How much models may take.")] = Capacity()
    unschedulable: Annotated[bool, Meta(description="Cordon: no further models come here.")] = False
    drain: Annotated[bool, Meta(description="Move the models elsewhere, one by one.")] = False

    @property
    def port(self) -> int:
        """The port of the daemon, for the operator and for pods."""
        port = urlsplit(self.endpoint).port
        return DEFAULT_PORT if port is None else port

    @property
    def url(self) -> str:
        """The URL of the daemon with its port and without a slash at the end."""
        parts = urlsplit(self.endpoint)
        name = parts.hostname or ""
        return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}:{self.port}"

    def address_in(self, namespace: str) -> HostAddress:
        """Return how the daemon of a host of this namespace is reached."""
        authority = self.tls.ca_secret_ref if self.tls else None
        return HostAddress(
            namespace=namespace,
            endpoint=self.url,
            protocol=self.protocol,
            token=SecretKey(self.auth.secret_ref.name, self.auth.secret_ref.key) if self.auth else None,
            authority=SecretKey(authority.name, authority.key) if authority else None,
            server_name=self.tls.server_name if self.tls else "",
            published=self.address,
        )


class Phase(StrEnum):
    """The state of a host in one word."""

    READY = "Ready"
    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    DRAINING = "Draining"


class Memory(Struct, frozen=True, rename="camel"):
    """The memory of a host, for models."""

    total: Annotated[str, Meta(description="What it has, or what spec.capacity says; empty: not known.")] = ""
    free: Annotated[str, Meta(description="What it reports as free; empty: it does not say.")] = ""
    allocated: Annotated[str, Meta(description="What InferenceModels have reserved here.")] = ""
    pressure: Annotated[
        str, Meta(description="How short of memory it is: normal, warning or critical; empty: it does not say.")
    ] = ""


class Loaded(Struct, frozen=True, rename="camel"):
    """A model on the host, as the host reports it."""

    id: Annotated[str, Meta(description="Its id.")]
    state: Annotated[ModelState, Meta(description="downloading, loading, ready, unloading or failed.")]
    progress: Annotated[int, Meta(description="Percent, in steps of five; 0: not known.")] = 0
    memory: Annotated[int, Meta(description="Bytes that it takes; 0: not known.")] = 0
    error: Annotated[str, Meta(description="Why it failed, in the words of the host.")] = ""
    code: Annotated[str, Meta(description="Why it failed, in one word of the host; empty: it does not say.")] = ""
    owner: Annotated[str, Meta(description="What asked for it last, as namespace/name; empty: not known.")] = ""
    ignored_options: Annotated[
        tuple[str, ...], Meta(description="Options that it was loaded without: its engine has none such.")
    ] = ()


class Leftover(Struct, frozen=True, order=True):
    """A model that an InferenceModel has left on the host, because the host was away when it went."""

    model: Annotated[str, Meta(description="The id of the model.")]
    owner: Annotated[str, Meta(description="The InferenceModel that has gone, as namespace/name.")]


class Notes(Struct, frozen=True):
    """What an InferenceHost remembers of its decisions: a field of its status."""

    leftovers: tuple[Leftover, ...] = ()


class InferenceHostStatus(Struct, frozen=True, rename="camel"):
    """What is true of a host."""

    phase: Annotated[Phase, Meta(description="Ready, NotReady, Cordoned or Draining.")] = Phase.NOT_READY
    endpoint: Annotated[str, Meta(description="The endpoint that this status speaks of.")] = ""
    address: Annotated[str, Meta(description="Where pods reach it; empty: nowhere, or not known yet.")] = ""
    memory: Annotated[Memory, Meta(description="Its memory for models.")] = Memory()
    model_count: Annotated[int, Meta(description="How many models it has.")] = 0
    models: Annotated[tuple[Loaded, ...], Meta(description="The models, as of its last answer.")] = ()
    leftovers: Annotated[
        tuple[Leftover, ...], Meta(description="What is unloaded when it answers again: its InferenceModels have gone.")
    ] = ()
    version: Annotated[str, Meta(description="The version of its daemon.")] = ""
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[
        Conditions, Meta(description="Reachable, Authenticated, Schedulable (may get models), Ready (all three).")
    ] = ()


COLUMNS = (
    Column("ENDPOINT", "string", ".spec.endpoint"),
    Column("READY", "string", '.status.conditions[?(@.type=="Ready")].status'),
    Column("MODELS", "integer", ".status.modelCount"),
    Column("FREE", "string", ".status.memory.free"),
    Column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason', wide=True),
)


def is_routable(address: str) -> bool:
    """Return whether an EndpointSlice may hold an IP address. ValueError: it is none."""
    ip = ip_address(address)
    return not (ip.is_loopback or ip.is_unspecified or ip.is_link_local or ip.is_multicast)


_ADDRESS_RULE = Rule(
    cel="self == '' || (isIP(self) && ip(self).isGlobalUnicast())",
    message="spec.address must be an IP address that pods can reach: not loopback, link-local, multicast or 0.0.0.0",
    field="spec.address",
    holds=lambda spec, _: not spec.address or is_routable(spec.address),
)

_PORT_RULE = Rule(
    cel="!isURL(self) || url(self).getPort() == '' || "
    "(int(url(self).getPort()) >= 1 && int(url(self).getPort()) <= 65535)",
    message="the port of spec.endpoint must be between 1 and 65535",
    field="spec.endpoint",
    holds=lambda spec, _: 1 <= spec.port <= 65535,
)

_TLS_RULE = Rule(
    cel="!has(self.tls) || self.endpoint.startsWith('https://')",
    message="spec.tls needs an https endpoint; write spec.endpoint with https, or leave spec.tls out",
    field="spec.tls",
    holds=lambda spec, _: spec.tls is None or spec.endpoint.startswith("https://"),
    at="spec",
)

RULES = (_ADDRESS_RULE, _PORT_RULE, _TLS_RULE)
