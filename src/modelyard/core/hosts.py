"""Machines outside the cluster that serve models: how one is reached, what it reports, and what it is asked to do.

`kinds/inferencehost` probes them, `kinds/inferencemodel` has models loaded on them. `net/hosts` does both over HTTP.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Final, Literal

import msgspec
from msgspec import Struct

from modelyard.core.calls import Call
from modelyard.core.checks import Check
from modelyard.core.grants import Grant
from modelyard.core.resources import SECRET

MOST_MODELS: Final = 256
"""How many models a host may have: the status of an InferenceHost holds them all."""
_READ_SECRETS: Final = (Grant(SECRET, "", ("get",)),)


class Protocol(StrEnum):
    """The dialect that a host speaks: a file of `net/hosts/` each."""

    INFERENCED = "inferenced"
    OLLAMA = "ollama"
    LLAMACPP = "llamacpp"


def comparable_id(model: str, protocol: Protocol) -> str:
    """Return the id of a model in the one spelling in which ids of a host can be compared.

    Names of Ollama have parts that may be left out, and their case does not count.
    """
    if protocol is not Protocol.OLLAMA:
        return model
    return model.lower().removeprefix("registry.ollama.ai/").removeprefix("library/").removesuffix(":latest")


class ModelState(StrEnum):
    """The state of a model on its host."""

    DOWNLOADING = "downloading"
    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"
    FAILED = "failed"


class Pressure(StrEnum):
    """How short of memory a host is."""

    NORMAL = "normal"
    WARNING = "warning"
    CRITICAL = "critical"


CacheType = Literal["f16", "f32", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"]
"""How the KV cache of llama.cpp may hold keys and values."""

Priority = Literal["critical", "high", "normal", "low", "batch"]
"""From what is evicted last to what is evicted first."""

EVICTED: Final = "Evicted"
"""The code of a model that a host has unloaded because it was short of memory."""


class SecretKey(Struct, frozen=True):
    """One value of a Secret in the namespace of the host."""

    name: str
    key: str


class HostAddress(Struct, frozen=True):
    """How a host is reached. Secrets are named, and read when the request is made, so that they may rotate."""

    namespace: str
    endpoint: str
    """Its URL: scheme, host and port."""
    protocol: Protocol = Protocol.INFERENCED
    token: SecretKey | None = None
    """The bearer token; None: requests carry none."""
    authority: SecretKey | None = None
    """The certificates that its own must be issued by; None: those that the operator's system trusts."""
    server_name: str = ""
    """The name that its certificate must hold; empty: that of the URL."""
    published: str = ""
    """The IP address at which pods reach it; empty: one of those of the URL."""


class HostedModel(Struct, frozen=True, omit_defaults=True):
    """A model on a host."""

    id: str
    state: ModelState = ModelState.READY
    progress: int = 0
    """Percent, in steps of five, so that a load is at most twenty pieces of news; 0: not known."""
    memory: int = 0
    """Bytes that it takes; 0: not known."""
    error: str = ""
    code: str = ""
    """Why it failed, in one word; empty: it has not failed, or the host does not say."""
    owner: str = ""
    """The object that asked for it last; empty: a person did, or the host does not say."""
    ignored_options: tuple[str, ...] = ()
    """The options that it was loaded without, because its engine has none such; sorted."""


class HostReport(Struct, frozen=True, omit_defaults=True):
    """What a host says of itself: the `value` of a good answer to `HostProbe`."""

    addresses: tuple[str, ...] = ()
    """The IP addresses at which pods may reach it, sorted."""
    models: tuple[HostedModel, ...] = ()
    """Sorted by id."""
    total: int = 0
    """Bytes of memory for models; 0: it does not say."""
    free: int | None = None
    """Bytes of it that are free; None: it does not say."""
    version: str = ""
    pressure: Pressure | None = None
    """How short of memory it is; None: it does not say."""


class HostProbe(Check, frozen=True):
    """Ask a host whether it is well and which models it has."""

    grants: ClassVar[tuple[Grant, ...]] = _READ_SECRETS

    host: HostAddress
    every: float = 5.0
    """A host that is killed is noticed by the third failure in a row: within 10 s, by the pauses of the poller."""


class LoadOptions(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """How a model is loaded. Changed, it has to be loaded anew."""

    context_size: int = 0
    """Tokens of context of all requests together; 0: what the engine takes by itself."""
    parallel: int = 0
    """How many requests at the same time; 0: what the engine takes by itself."""
    flash_attention: bool = False
    jinja: bool = False
    cache_type_k: str = ""
    """The type of the keys in the KV cache; empty: what the engine takes by itself."""
    cache_type_v: str = ""
    """The type of the values, likewise."""
    batch_size: int = 0
    """Tokens of a prompt at a time; 0: what the engine takes by itself."""
    u_batch_size: int = 0
    """Tokens that are computed at a time, likewise."""
    reasoning_budget: int | None = None
    """Tokens of reasoning in an answer; None: as many as the model likes."""

    @property
    def named(self) -> tuple[str, ...]:
        """The names of those that are set, as hosts are told them, sorted."""
        return tuple(sorted(msgspec.to_builtins(self)))


class LoadTerms(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a host is told about a model that may change while it is loaded."""

    priority: Priority = "normal"
    eviction_protection: bool = False
    aliases: tuple[str, ...] = ()
    """More names by which clients call it."""


class LoadModel(Call, frozen=True):
    """Have a host load a model. It succeeds when the host has accepted; the probe shows how the load goes."""

    grants: ClassVar[tuple[Grant, ...]] = _READ_SECRETS

    host: HostAddress
    model: str
    owner: str
    """The object that wants it, as the host shows it to people; also keeps calls of two objects apart."""
    memory: int = 0
    """Bytes to reserve; 0: not known."""
    options: LoadOptions = LoadOptions()
    terms: LoadTerms = LoadTerms()
    attempt: int = 1
    """Counts up, because a call that has succeeded or failed is to be made once more."""


class UnloadModel(Call, frozen=True):
    """Have a host unload a model. A model that is not there is a success."""

    grants: ClassVar[tuple[Grant, ...]] = _READ_SECRETS

    host: HostAddress
    model: str
    owner: str
