"""The InferenceModel kind as users write it and as they read it back."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from modelyard.core.conditions import Conditions
from modelyard.core.hosts import CacheType, LoadOptions, LoadTerms, Priority
from modelyard.core.quantities import AMOUNT_PATTERN
from modelyard.core.resources import Resource
from modelyard.core.selectors import Expression, Operator, Selector
from modelyard.kinds.contract import Column, Rule

# InferenceServices have it as a child, and are served without its definition as well.
RESOURCE: Final = Resource(
    "modelyard.dev", "v1alpha1", "InferenceModel", "inferencemodels", scalable=True, optional=True
)

PORT: Final = 11434
"""The port of the Service of an InferenceModel that names none."""

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME_LIMIT: Final = 63
_LABEL_LIMIT: Final = 317
_WITH_VALUES: Final = frozenset({Operator.IN, Operator.NOT_IN})


class Requirement(Struct, frozen=True, rename="camel"):
    """One expression of a label selector."""

    key: Annotated[str, Meta(description="The label.", min_length=1, max_length=_LABEL_LIMIT)]
    operator: Annotated[Operator, Meta(description="In, NotIn, Exists or DoesNotExist.")]
    values: Annotated[
        tuple[Annotated[str, Meta(max_length=63)], ...], Meta(description="For In and NotIn.", max_length=64)
    ] = ()


class HostSelector(Struct, frozen=True, rename="camel"):
    """A label selector."""

    match_labels: Annotated[dict[str, str], Meta(description="Labels that a host must have.", max_length=64)] = {}
    match_expressions: Annotated[tuple[Requirement, ...], Meta(description="Further requirements.", max_length=64)] = ()

    @property
    def selector(self) -> Selector:
        """The selector as values are matched with it."""
        expressions = (Expression(one.key, one.operator, one.values) for one in self.match_expressions)
        return Selector(tuple(sorted(self.match_labels.items())), tuple(expressions))


class PlacementSpec(Struct, frozen=True, rename="camel"):
    """When replicas move."""

    failover_after_seconds: Annotated[
        int, Meta(description="How long a host may be gone before its replica is loaded elsewhere.", ge=0, le=86400)
    ] = 60
    drain_seconds: Annotated[
        int, Meta(description="How long a replica that goes may finish its requests.", ge=0, le=3600)
    ] = 30


class Options(Struct, frozen=True, rename="camel"):
    """How hosts load a model."""

    context_size: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None,
        Meta(description="The context in tokens, of all requests together."),
    ] = None
    parallel_slots: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None, Meta(description="How many requests at the same time.")
    ] = None
    flash_attention: Annotated[bool, Meta(description="llama.cpp: flash attention.")] = False
    jinja: Annotated[bool, Meta(description="llama.cpp: chat templates with Jinja, which calling tools needs.")] = False
    cache_type_k: Annotated[
        CacheType | None, Meta(description="llama.cpp: type of the keys in the KV cache, such as q8_0.")
    ] = None
    cache_type_v: Annotated[
        CacheType | None, Meta(description="llama.cpp: type of the values in the KV cache; may need flashAttention.")
    ] = None
    batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=16384)] | None, Meta(description="llama.cpp: tokens of a prompt at a time.")
    ] = None
    u_batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None, Meta(description="llama.cpp: tokens computed at a time.")
    ] = None
    reasoning_budget: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(description="llama.cpp: tokens of reasoning in an answer; 0 for none."),
    ] = None

    @property
    def of_load(self) -> LoadOptions:
        """The options as hosts are told them."""
        return LoadOptions(
            context_size=self.context_size or 0,
            parallel=self.parallel_slots or 0,
            flash_attention=self.flash_attention,
            jinja=self.jinja,
            cache_type_k=self.cache_type_k or "",
            cache_type_v=self.cache_type_v or "",
            batch_size=self.batch_size or 0,
            u_batch_size=self.u_batch_size or 0,
            reasoning_budget=self.reasoning_budget,
        )


class InferenceModelSpec(Struct, frozen=True, rename="camel"):
    """A model that hosts outside the cluster serve, under one DNS name of the cluster."""

    model: Annotated[
        str,
        Meta(
            description="The id of the model, as its hosts know it and clients request it.",
            min_length=1,
            max_length=512,
            pattern=r"^\S(.*\S)?$",
        ),
    ]
    replicas: Annotated[int, Meta(description="On how many hosts.", ge=0, le=1000)] = 1
    host_selector: Annotated[
        HostSelector, Meta(description="Which InferenceHosts of the namespace. Left out: all of them.")
    ] = HostSelector()
    memory: Annotated[
        str,
        Meta(
            description="Memory that the model takes on a host. Left out: what a host has reported of it.",
            max_length=32,
            pattern=AMOUNT_PATTERN.replace("^(", "^((", 1).removesuffix("$") + ")?$",
        ),
    ] = ""
    memory_fraction: Annotated[
        Annotated[float, Meta(ge=0.01, le=1.0)] | None,
        Meta(description="The largest share of a host's memory that the model may take. Left out: all of it."),
    ] = None
    options: Annotated[Options, Meta(description="How hosts load it. Only with the protocol inferenced.")] = Options()
    priority: Annotated[
        Priority, Meta(description="Which models a host evicts first when it is short of memory: batch, then low.")
    ] = "normal"
    eviction_protection: Annotated[
        bool, Meta(description="Keep hosts from evicting it when they are short of memory.")
    ] = False
    aliases: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=512)], ...],
        Meta(description="More names by which clients may call it. Only with the protocol inferenced.", max_length=16),
    ] = ()
    port: Annotated[int, Meta(description="The port of the Service.", ge=1, le=65535)] = PORT
    headless: Annotated[
        bool, Meta(description="Let the DNS name lead to the hosts themselves. Changed: the Service is made anew.")
    ] = False
    placement: Annotated[PlacementSpec, Meta(description="When replicas move.")] = PlacementSpec()

    @property
    def terms(self) -> LoadTerms:
        """What hosts are told about the model that may change while it is loaded."""
        return LoadTerms(self.priority, self.eviction_protection, self.aliases)


class Assignment(Struct, frozen=True, rename="camel"):
    """A host that the model is placed on. Written before the host is called, so that no load is forgotten."""

    host: Annotated[str, Meta(description="The InferenceHost.")]
    model: Annotated[str, Meta(description="The id of the model.")]
    memory: Annotated[
        int, Meta(description="Bytes that are reserved for it; 0: not known, so it has the host alone.")
    ] = 0
    since: Annotated[str, Meta(description="Since when.")] = ""
    ours: Annotated[bool, Meta(description="Whether it is unloaded in the end: not if it was there before.")] = True
    options: Annotated[str, Meta(description="How it is loaded, such as contextSize=8192; empty: no matter how.")] = ""
    terms: Annotated[
        str, Meta(description="A hash of priority, protection and aliases that the host was told; empty: of none.")
    ] = ""


class PendingUnload(Struct, frozen=True, rename="camel"):
    """A model that has left a host and is still to be unloaded there."""

    host: Annotated[str, Meta(description="The InferenceHost.")]
    model: Annotated[str, Meta(description="The id of the model.")]
    memory: Annotated[int, Meta(description="Bytes that are reserved until then.")] = 0
    since: Annotated[str, Meta(description="Since when.")] = ""
    serving: Annotated[bool, Meta(description="Whether it finishes requests for spec.placement.drainSeconds.")] = False
    reload: Annotated[bool, Meta(description="Whether it is loaded there again afterwards, with other options.")] = (
        False
    )


class LoadFailure(Struct, frozen=True, rename="camel"):
    """Loads of the model that failed on a host since it was last ready there."""

    host: Annotated[str, Meta(description="The InferenceHost.")]
    model: Annotated[str, Meta(description="The id of the model.")]
    count: Annotated[int, Meta(description="How many in a row.")]
    since: Annotated[str, Meta(description="When the last one failed.")]
    error: Annotated[str, Meta(description="Why.")] = ""
    wait: Annotated[int, Meta(description="Seconds that the host asked to wait before the next.")] = 0


class Memory(Struct, frozen=True, rename="camel"):
    """What an InferenceModel remembers of its decisions: fields of its status."""

    assignments: tuple[Assignment, ...] = ()
    pending_unloads: tuple[PendingUnload, ...] = ()
    load_failures: tuple[LoadFailure, ...] = ()
    suspected_since: str = ""
    trusted_since: str = ""


class State(StrEnum):
    """The state of a replica."""

    PENDING = "Pending"
    DOWNLOADING = "Downloading"
    LOADING = "Loading"
    READY = "Ready"
    FAILED = "Failed"
    UNREACHABLE = "Unreachable"


class Placement(Struct, frozen=True, rename="camel"):
    """One replica, as its host shows it."""

    host: Annotated[str, Meta(description="The InferenceHost.")]
    model: Annotated[str, Meta(description="The id of the model.")]
    state: Annotated[State, Meta(description="Pending, Downloading, Loading, Ready, Failed or Unreachable.")]
    since: Annotated[str, Meta(description="When state or progress last changed.")] = ""
    progress: Annotated[int, Meta(description="Percent, in steps of five; 0: not known.")] = 0
    address: Annotated[str, Meta(description="The published address; empty: it gets no requests.")] = ""
    port: Annotated[int, Meta(description="The published port.")] = 0
    error: Annotated[str, Meta(description="Why it failed, or is not published.")] = ""


class InferenceModelStatus(Struct, frozen=True, rename="camel"):
    """What is true of a model."""

    replicas: Annotated[int, Meta(description="On how many hosts it is placed.")] = 0
    ready_replicas: Annotated[int, Meta(description="How many hosts get requests.")] = 0
    endpoint: Annotated[str, Meta(description="Where pods reach it.")] = ""
    selector: Annotated[str, Meta(description="The labels of its EndpointSlices, for the scale subresource.")] = ""
    placements: Annotated[tuple[Placement, ...], Meta(description="The replicas, sorted by host.")] = ()
    assignments: Annotated[tuple[Assignment, ...], Meta(description="The hosts that were chosen.")] = ()
    pending_unloads: Annotated[tuple[PendingUnload, ...], Meta(description="What is still to be unloaded.")] = ()
    load_failures: Annotated[tuple[LoadFailure, ...], Meta(description="Loads that failed, by host.")] = ()
    suspected_since: Annotated[str, Meta(description="Since when no host at all answers; empty: one does.")] = ""
    trusted_since: Annotated[str, Meta(description="When hosts answered again after that.")] = ""
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[Conditions, Meta(description="Placed (hosts are chosen), Ready (all serve), and why.")] = ()


COLUMNS = (
    Column("MODEL", "string", ".spec.model"),
    Column("REPLICAS", "integer", ".spec.replicas"),
    Column("READY", "integer", ".status.readyReplicas"),
    Column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason', wide=True),
)


def _is_complete(selector: HostSelector) -> bool:
    return all(bool(one.values) == (one.operator in _WITH_VALUES) for one in selector.match_expressions)


def _holds_name(_: Any, meta: Any) -> bool:
    return len(meta.name) <= _NAME_LIMIT and _NAME.fullmatch(meta.name) is not None


_NAME_RULE = Rule(
    cel=f"self.metadata.name.matches('^{_NAME.pattern}$') && size(self.metadata.name) <= {_NAME_LIMIT}",
    message="metadata.name must begin with a letter, hold only a-z, 0-9 and '-', and have at most "
    f"{_NAME_LIMIT} characters, because the Service has the same name",
    field="metadata.name",
    holds=_holds_name,
    at="",
)

_SELECTOR_RULE = Rule(
    cel="self.all(one, (has(one.values) && size(one.values) > 0) == (one.operator in ['In', 'NotIn']))",
    message="spec.hostSelector.matchExpressions must list values for In and NotIn, and none for the other operators",
    field="spec.hostSelector.matchExpressions",
    holds=lambda spec, _: _is_complete(spec.host_selector),
)

RULES = (_NAME_RULE, _SELECTOR_RULE)
