"""What must hold of an InferenceService beyond the types of its fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from modelyard.core.quantities import quantity
from modelyard.kinds.contract import Rule

if TYPE_CHECKING:
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec, Metric

NAME_LIMIT = 63
IMAGE_NEEDED = ("generic", "personaplex")
SCALED_BY = ("cpu", "memory")
_NAME = re.compile(r"[a-z]([-a-z0-9.]*[a-z0-9])?")
_METRICS = (
    "!has(self.spec.autoscaling) || !has(self.spec.autoscaling.metrics) || self.spec.autoscaling.metrics.all(m, {})"
)


def _name_rule() -> Rule:
    return Rule(
        cel=f"self.metadata.name.matches('^{_NAME.pattern}$') && size(self.metadata.name) <= {NAME_LIMIT}",
        message=f"metadata.name must begin with a letter and have at most {NAME_LIMIT} characters, because the Service "
        "has the same name, with dashes for dots",
        field="metadata.name",
        holds=lambda _, meta: len(meta.name) <= NAME_LIMIT and _NAME.fullmatch(meta.name) is not None,
    )


def _image_rule() -> Rule:
    return Rule(
        cel=f"!(self.spec.runtime in {list(IMAGE_NEEDED)}) || has(self.spec.image)",
        message="spec.image must be set for the runtimes generic and personaplex: they have no image of their own",
        field="spec.image",
        holds=lambda spec, _: spec.runtime not in IMAGE_NEEDED or spec.image is not None,
    )


def _amount_rule(name: str) -> Rule:
    path = f"self.spec.resources.{name}"
    attribute = {"gpuMemory": "gpu_memory", "hostMemory": "host_memory"}.get(name, name)
    return Rule(
        cel=f"!has(self.spec.resources) || !has({path}) || isQuantity({path})",
        message=f"spec.resources.{name} must be a quantity such as 500m, 2 or 4Gi",
        field=f"spec.resources.{name}",
        holds=lambda spec, _: _is_amount(getattr(spec.resources, attribute)),
    )


def _is_amount(text: str | None) -> bool:
    return text is None or quantity(text) >= 0


def _metrics(spec: InferenceServiceSpec) -> tuple[Metric, ...]:
    return spec.autoscaling.metrics if spec.autoscaling else ()


_SCALING_RULES = (
    Rule(
        cel="!has(self.spec.autoscaling) || self.spec.autoscaling.minReplicas <= self.spec.autoscaling.maxReplicas",
        message="spec.autoscaling.minReplicas must not be larger than spec.autoscaling.maxReplicas",
        field="spec.autoscaling.minReplicas",
        holds=lambda spec, _: not spec.autoscaling or spec.autoscaling.min_replicas <= spec.autoscaling.max_replicas,
    ),
    Rule(
        cel=_METRICS.format("m.type != 'Pods' || (has(m.targetAverageValue) && isQuantity(m.targetAverageValue))"),
        message="spec.autoscaling.metrics of type Pods need a targetAverageValue, such as 2 or 500m",
        field="spec.autoscaling.metrics",
        holds=lambda spec, _: all(
            metric.target_average_value is not None and _is_amount(metric.target_average_value)
            for metric in _metrics(spec)
            if metric.type == "Pods"
        ),
    ),
    Rule(
        cel=_METRICS.format(
            f"m.type != 'Resource' || (m.name in {list(SCALED_BY)} && has(m.targetAverageUtilization))"
        ),
        message="spec.autoscaling.metrics of type Resource are cpu or memory, and need a targetAverageUtilization in "
        "per cent of the request",
        field="spec.autoscaling.metrics",
        holds=lambda spec, _: all(
            metric.name in SCALED_BY and metric.target_average_utilization is not None
            for metric in _metrics(spec)
            if metric.type == "Resource"
        ),
    ),
)

RULES = (
    _name_rule(),
    _image_rule(),
    *(_amount_rule(name) for name in ("cpu", "memory", "hostMemory", "gpuMemory")),
    *_SCALING_RULES,
)
