"""The HorizontalPodAutoscaler of a Deployment, its failures, and `spec.hpa` of the inference-gateway kinds."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from msgspec import Meta, Struct

from modelyard.core.conditions import Condition, Problem, Truth, failing, ready_since, stored_condition
from modelyard.core.embedded import AutoscalerBehavior, MetricSpec, ScaleTarget
from modelyard.core.errors import SpecInvalid
from modelyard.core.plan import Child, Replicas, RequeueAfter
from modelyard.core.reasons import Reason
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT
from modelyard.kinds.contract import Owned, Rule
from modelyard.kinds.shared import workloads
from modelyard.kinds.shared.pods import without_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from modelyard.core.objects import Metadata
    from modelyard.core.resources import Ref
    from modelyard.kinds.contract import Seen

Json = dict[str, Any]

AUTOSCALED = "Autoscaled"
REQUESTS_PER_POD = "2"
"""How many requests in progress each pod should have, where a service names no metric to scale by."""
METRICS_GRACE = 120.0
"""Seconds that pods get to deliver their first metrics before an autoscaler without them is reported."""
_SCALED_TO_ZERO = "ScalingDisabled"
"""The reason of an autoscaler whose Deployment was scaled to zero."""
_REMEDIES = {
    "FailedGetPodsMetric": "install a custom metrics adapter that serves this metric, or scale by cpu or memory",
    "FailedGetResourceMetric": "install metrics-server, and set requests for what is measured",
}
Count = Annotated[int, Meta(ge=1, le=1000)]


class AutoscalerConfig(Struct, frozen=True, rename="camel"):
    """Bounds, metrics and behavior of the HorizontalPodAutoscaler."""

    max_replicas: Annotated[Count, Meta(description="The most pods it may ask for.")]
    min_replicas: Annotated[Count, Meta(description="The fewest pods it may ask for.")] = 1
    metrics: Annotated[
        tuple[MetricSpec, ...],
        Meta(description="What to scale by. Without any: CPU use of 80 % of the request.", max_length=32),
    ] = ()
    behavior: Annotated[AutoscalerBehavior | None, Meta(description="How fast to scale up and down.")] = None
    scale_target_ref: Annotated[
        ScaleTarget | None,
        Meta(description="May be left out. It can only be the Deployment of this object."),
    ] = None


class _Bounds(Protocol):
    @property
    def min_replicas(self) -> int | None: ...
    @property
    def max_replicas(self) -> int | None: ...


class HpaSpec(Struct, frozen=True, rename="camel"):
    """Whether and how the number of pods follows the load."""

    enabled: Annotated[bool, Meta(description="Whether a HorizontalPodAutoscaler is created.")] = False
    config: Annotated[AutoscalerConfig, Meta(description="How it scales. Left out: 1 to 10 pods, by CPU use.")] = (
        AutoscalerConfig(max_replicas=10)
    )

    @property
    def wanted(self) -> AutoscalerConfig | None:
        """The configuration of the autoscaler; None: it is not enabled."""
        return self.config if self.enabled else None


def bounds_rule(at: str, config: Callable[[Any], _Bounds | None]) -> Rule:
    """Return the rule that minReplicas is at most maxReplicas, two fields of what `at` names in the spec.

    `config` takes what `at` names from a spec, and returns None if the user has not written it.
    """
    low, high, remedy = f"{at}.minReplicas", f"{at}.maxReplicas", "lower the first or raise the second"

    def holds(spec: Any, _: Metadata) -> bool:
        found = config(spec)
        if found is None or not _are_reversed(found):
            return True
        wrong = f"is {found.min_replicas} and must not be larger than {high}, which is {found.max_replicas}"
        raise SpecInvalid(low, wrong, remedy)

    return Rule(
        # A default of the block is checked against this before the defaults of its fields are in it.
        cel="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        message=f"{low} must not be larger than {high}; {remedy}",
        # Not joined with `+`: of the text of a number the API server does not know that it is short.
        message_expression=f"'{low} is %d and must not be larger than {high}, which is %d; {remedy}'"
        ".format([self.minReplicas, self.maxReplicas])",
        field=low,
        holds=holds,
        at=at,
    )


def _are_reversed(bounds: _Bounds) -> bool:
    low, high = bounds.min_replicas, bounds.max_replicas
    return low is not None and high is not None and low > high


RULES = (
    bounds_rule("spec.hpa.config", lambda spec: spec.hpa.config),
    Rule(
        cel="!has(self.spec.hpa) || !has(self.spec.hpa.config) || !has(self.spec.hpa.config.scaleTargetRef) || "
        "(self.spec.hpa.config.scaleTargetRef.kind == 'Deployment' && "
        "self.spec.hpa.config.scaleTargetRef.name == self.metadata.name)",
        message="spec.hpa.config.scaleTargetRef can only be the Deployment of this object: leave it out",
        field="spec.hpa.config.scaleTargetRef",
        holds=lambda spec, meta: _targets_own(spec.hpa.config.scale_target_ref, meta.name),
        at="",
    ),
)


def _targets_own(target: Json | None, name: str) -> bool:
    return target is None or (target.get("kind") == DEPLOYMENT.kind and target.get("name") == name)


def replicas(wanted: int, scaling: AutoscalerConfig | None, seen: Seen) -> Replicas:
    """Return the replicas of the Deployment, and whether an autoscaler owns the number.

    An autoscaler that was switched off owns it until it is deleted. Otherwise both would write it for a while.
    """
    present = bool(seen.all(Owned(AUTOSCALER)))
    at_least = scaling.min_replicas if scaling else 0
    return Replicas(wanted, autoscaled=scaling is not None or present, at_least=at_least)


def autoscaler(
    name: str, labels: Mapping[str, str], scaling: AutoscalerConfig | None, target: str
) -> tuple[Child, ...]:
    """Return the HorizontalPodAutoscaler of a Deployment; empty: none is wanted."""
    if scaling is None:
        return ()
    spec = {
        "scaleTargetRef": {"apiVersion": DEPLOYMENT.api_version, "kind": DEPLOYMENT.kind, "name": target},
        "minReplicas": scaling.min_replicas,
        "maxReplicas": scaling.max_replicas,
        "metrics": list(scaling.metrics),
        "behavior": scaling.behavior,
    }
    return (workloads.child(AUTOSCALER, name, labels, {"spec": without_empty(spec)}),)


def pods_metric(name: str, value: str) -> Json:
    """Return a metric of the pods to scale by, and how much of it each pod should have."""
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}


def conditions(before: Json, seen: Seen) -> tuple[Condition, ...]:
    """Return the condition Autoscaled if the autoscaler fails; empty: it works, or there is none. Pods serve anyway."""
    failed = _failing_condition(seen)
    if failed is None or (_grace_left(failed, before, seen.now) > 0 and not stored_condition(before, AUTOSCALED)):
        return ()
    # It names another pod every 15 seconds, and each would be a write of the status.
    said = re.sub(r" of Pod \S+", "", str(failed.get("message", "")))[:512] or "no reason given"
    problem = Problem(
        Reason.AUTOSCALER_STUCK,
        f"the autoscaler does not work: {said}",
        _REMEDIES.get(str(failed.get("reason")), "see `kubectl describe hpa`"),
    )
    return (failing(AUTOSCALED, problem),)


def requeue_after(before: Json, seen: Seen) -> RequeueAfter | None:
    """Return when an autoscaler without metrics is to be reported; None: nothing to wait for."""
    failed = _failing_condition(seen)
    left = _grace_left(failed, before, seen.now) if failed else 0.0
    return RequeueAfter(left, "the autoscaler has no metrics yet") if left > 0 else None


def _failing_condition(seen: Seen) -> Json | None:
    found = seen.one(Owned(AUTOSCALER))
    said = [stored_condition(found.status, kind) for kind in ("AbleToScale", "ScalingActive")] if found else []
    return next((one for one in said if one.get("status") == "False" and one.get("reason") != _SCALED_TO_ZERO), None)


def _grace_left(failed: Json, before: Json, now: datetime) -> float:
    """Return the seconds that a failed condition may still pass by itself: pods that are not ready have no metrics."""
    if stored_condition(before, "Ready").get("status") != Truth.TRUE:
        return METRICS_GRACE
    said, ready = failed.get("lastTransitionTime"), ready_since(before)
    begun = [*([datetime.fromisoformat(said)] if said else []), *([ready] if ready else [])]
    return METRICS_GRACE - min(((now - since).total_seconds() for since in begun), default=METRICS_GRACE)


def obsolete(scaling: AutoscalerConfig | None, seen: Seen) -> tuple[Ref, ...]:
    """Return the autoscalers to delete because none is wanted any more."""
    return () if scaling else tuple(found.ref for found in seen.all(Owned(AUTOSCALER)))
