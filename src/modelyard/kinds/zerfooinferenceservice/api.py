"""The ZerfooInferenceService kind as users write it and as they read it back. What must hold between fields is in
`rules.py`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from modelyard.core.conditions import Conditions
from modelyard.core.quantities import DURATION_PATTERN, seconds
from modelyard.core.resources import Resource
from modelyard.kinds.contract import Column

RESOURCE = Resource("modelyard.dev", "v1alpha1", "ZerfooInferenceService", "zerfooinferenceservices")

PORT = 8080
"""The port of every Service."""

ZERFOO = "zerfoo"
Runtime = Literal["zerfoo", "llamacpp", "vllm", "tgi"]
Amount = Annotated[str, Meta(max_length=32)]
"""A quantity; `rules.py` says so in words. Empty means absent."""
# The API server compares bounds as floats: with 2**63 - 1 every number would be too large.
Duration = Annotated[int, Meta(ge=1, le=2**53)] | Annotated[str, Meta(pattern=DURATION_PATTERN, max_length=32)]
"""A duration such as `10s`, or nanoseconds, which is how Go writes durations as JSON."""
ModelName = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[^\s-]\S*$")]
"""One word that a server cannot take for a flag."""


class HealthCheck(Struct, frozen=True, rename="camel"):
    """How the pods are probed."""

    path: Annotated[
        str,
        Meta(
            description="The path that answers 200 when the server can take requests.",
            pattern=r"^/[^\s#]*$",
            max_length=1024,
        ),
    ]
    interval: Annotated[Duration, Meta(description="How often the path is asked, such as 10s; at most 1h.")]
    timeout: Annotated[
        Duration, Meta(description="How long an answer may take, such as 2s; not longer than the interval.")
    ]


class Resources(Struct, frozen=True, rename="camel"):
    """What one pod needs."""

    cpu: Annotated[Amount, Meta(description="CPU request, such as 4 or 500m.")] = ""
    memory: Annotated[Amount, Meta(description="Memory request, such as 16Gi.")] = ""
    gpu_memory: Annotated[
        Amount, Meta(description="Asks for a GPU, on a node whose GPUs have this much memory together, such as 24Gi.")
    ] = ""


class ZerfooInferenceServiceSpec(Struct, frozen=True, rename="camel"):
    """A server that answers requests with a model."""

    model_ref: Annotated[
        ModelName, Meta(description="The model: a name that Zerfoo knows, or with another runtime a Model object.")
    ]
    replicas: Annotated[
        int, Meta(description="How many pods. With an autoscaler: how many to start with.", ge=1, le=1000)
    ]
    health_check: Annotated[HealthCheck, Meta(description="How the pods are probed.")]
    runtime: Annotated[
        Runtime, Meta(description="The server: zerfoo, or an engine that serves a Model of the same namespace.")
    ] = "zerfoo"
    min_replicas: Annotated[
        int, Meta(description="The fewest pods of the autoscaler; 0 or left out: there is none.", ge=0, le=1000)
    ] = 0
    max_replicas: Annotated[
        int, Meta(description="The most pods of the autoscaler; 0 or left out: there is none.", ge=0, le=1000)
    ] = 0
    resources: Annotated[Resources, Meta(description="What one pod needs.")] = Resources()


class TrackStatus(Struct, frozen=True, rename="camel"):
    """What is true of one of the Deployments that serve."""

    name: Annotated[str, Meta(description="primary.")]
    model: Annotated[str, Meta(description="The model that its pods are to serve.")]
    replicas: Annotated[int, Meta(description="How many pods there should be now.")] = 0
    ready_replicas: Annotated[int, Meta(description="How many pods are ready.")] = 0
    weight: Annotated[int, Meta(description="The share of requests it should get, in per cent.")] = 0
    effective_weight: Annotated[int, Meta(description="The share of requests it gets, in per cent.")] = 0


class ZerfooInferenceServiceStatus(Struct, frozen=True, rename="camel"):
    """What is true of a service."""

    phase: Annotated[
        str, Meta(description="One word for the state; docs/kinds/zerfooinferenceservice.md has the table.")
    ] = ""
    ready: Annotated[bool, Meta(description="Whether the Ready condition is True.")] = False
    replicas: Annotated[int, Meta(description="How many pods the primary has.")] = 0
    selector: Annotated[str, Meta(description="Selects the pods of the primary, for autoscalers.")] = ""
    message: Annotated[str, Meta(description="What keeps it from being ready; empty: nothing does.")] = ""
    tracks: Annotated[
        tuple[TrackStatus, ...],
        Meta(
            description="The Deployments that serve.",
            extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = ()
    url: Annotated[str, Meta(description="Where requests are sent, from within the cluster.")] = ""
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[Conditions, Meta(description="PrimaryReady and Ready, and why.")] = ()


COLUMNS = (
    Column("READY", "boolean", ".status.ready"),
    Column("REPLICAS", "integer", ".status.replicas"),
    Column("URL", "string", ".status.url"),
)


def in_seconds(duration: int | str) -> float:
    """Return the seconds of a duration that a user wrote; ValueError: it is none."""
    return duration / 1e9 if isinstance(duration, int) else seconds(duration)
