"""The ZerfooInferenceService kind as users write it and as they read it back. What must hold between fields is in
`rules.py`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from modelyard.core.conditions import Conditions
from modelyard.core.quantities import DURATION_PATTERN, seconds
from modelyard.core.resources import Resource
from modelyard.kinds.contract import Column
from modelyard.kinds.shared.http_route import RouteSpec

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


class Step(Struct, frozen=True, rename="camel"):
    """One step of a canary: a weight, for how long, and what must hold meanwhile."""

    weight: Annotated[int, Meta(description="The share of requests of the canary, in per cent.", ge=1, le=100)]
    duration: Annotated[Duration, Meta(description="How long the step takes at least, such as 10m.")]
    max_error_rate: Annotated[
        str,
        Meta(
            description="The largest share of answers with 5xx, or broken off, such as 1%. Left out: any.",
            pattern=r"^((100|[0-9]{1,2}(\.[0-9]{1,3})?)%)?$",
            max_length=8,
        ),
    ] = ""
    max_p95_latency: Annotated[
        Duration | None, Meta(description="How long 95 of 100 answers may take, to their end. Left out: any time.")
    ] = field(default=None, name="maxP95Latency")
    min_requests: Annotated[
        int,
        Meta(description="How many requests the canary must have answered before it is judged.", ge=1, le=2**31 - 1),
    ] = 1


class Canary(Struct, frozen=True, rename="camel"):
    """A second model that gets a share of the requests."""

    model_ref: Annotated[ModelName, Meta(description="The model, named as spec.modelRef is.")]
    weight: Annotated[
        int,
        Meta(description="Its share of the requests, in per cent. 0 with steps, which have their own.", ge=0, le=100),
    ] = 0
    steps: Annotated[
        tuple[Step, ...], Meta(description="Raise its weight step by step, as long as it does well.", max_length=32)
    ] = ()
    promote: Annotated[
        Literal["Auto", "Manual"],
        Meta(description="After the last step. Auto: it becomes the primary. Manual: it keeps the last weight."),
    ] = "Manual"


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
    canary: Annotated[Canary | None, Meta(description="A second model that gets a share of the requests.")] = None
    route: Annotated[
        RouteSpec | None, Meta(description="Gateways that lead to the service, by an HTTPRoute with the same weights.")
    ] = None


class TrackStatus(Struct, frozen=True, rename="camel"):
    """What is true of one of the Deployments that serve."""

    name: Annotated[str, Meta(description="primary or canary.")]
    model: Annotated[str, Meta(description="The model that its pods are to serve.")]
    replicas: Annotated[int, Meta(description="How many pods there should be now.")] = 0
    ready_replicas: Annotated[int, Meta(description="How many pods are ready.")] = 0
    weight: Annotated[int, Meta(description="The share of requests it should get, in per cent.")] = 0
    effective_weight: Annotated[int, Meta(description="The share of requests it gets, in per cent.")] = 0


class Counted(Struct, frozen=True, rename="camel"):
    """What a router had counted for the canary when a step began."""

    requests: Annotated[int, Meta(description="Requests.")] = 0
    errors: Annotated[int, Meta(description="Answers with 5xx, or broken off.")] = 0
    within: Annotated[dict[str, int], Meta(description="Answers that took at most so many milliseconds.")] = {}


class Rollout(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the operator remembers of a canary."""

    canary: Annotated[str, Meta(description="Which canary this is about: a hash of its model and steps.")] = ""
    weight: Annotated[int, Meta(description="The weight that was decided last.")] = 0
    step: Annotated[int, Meta(description="How many steps have passed.")] = 0
    since: Annotated[str, Meta(description="Since when the weight of the step is in force.")] = ""
    counted: Annotated[dict[str, Counted], Meta(description="What each router had counted then.")] = {}
    verdict: Annotated[str, Meta(description="How the steps ended: RolledBack, Promoted or Passed.")] = ""
    message: Annotated[str, Meta(description="Why it was rolled back.")] = ""
    leaving_since: Annotated[str, Meta(description="Since when a canary that is removed gets no request.")] = ""


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
    rollout: Annotated[Rollout | None, Meta(description="What the operator remembers of a canary.")] = None
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[
        Conditions, Meta(description="PrimaryReady, CanaryReady, TrafficSplit and Ready, and why.")
    ] = ()


COLUMNS = (
    Column("READY", "boolean", ".status.ready"),
    Column("REPLICAS", "integer", ".status.replicas"),
    Column("CANARY", "integer", '.status.tracks[?(@.name=="canary")].effectiveWeight'),
    Column("URL", "string", ".status.url"),
)


def in_seconds(duration: int | str) -> float:
    """Return the seconds of a duration that a user wrote; ValueError: it is none."""
    return duration / 1e9 if isinstance(duration, int) else seconds(duration)
