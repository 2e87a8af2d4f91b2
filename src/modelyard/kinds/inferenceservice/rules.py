"""The validation rules of an InferenceService, for what the types of its fields cannot say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from modelyard.core.quantities import quantity
from modelyard.kinds.contract import Rule
from modelyard.kinds.shared.autoscale import bounds_rule
from modelyard.kinds.shared.probe_rules import probe_rules

if TYPE_CHECKING:
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec, Metric

NAME_LIMIT = 63
IMAGE_NEEDED = ("generic", "personaplex")
SCALED_BY = ("cpu", "memory")
_ATTRIBUTES = {"gpuMemory": "gpu_memory", "hostMemory": "host_memory", "ephemeralStorage": "ephemeral_storage"}
_NAME = re.compile(r"[a-z]([-a-z0-9.]*[a-z0-9])?")


def _name_rule() -> Rule:
    return Rule(
        cel=f"self.metadata.name.matches('^{_NAME.pattern}$') && size(self.metadata.name) <= {NAME_LIMIT}",
        message=f"metadata.name must begin with a letter and have at most {NAME_LIMIT} characters, because the Service "
        "has the same name, with dashes for dots",
        field="metadata.name",
        holds=lambda _, meta: len(meta.name) <= NAME_LIMIT and _NAME.fullmatch(meta.name) is not None,
        at="",
    )


def _image_rule() -> Rule:
    return Rule(
        cel=f"!(self.runtime in {list(IMAGE_NEEDED)}) || (has(self.image) && self.image != '')",
        message="spec.image must be set for the runtimes generic and personaplex: they have no image of their own",
        field="spec.image",
        holds=lambda spec, _: spec.runtime not in IMAGE_NEEDED or spec.image != "",
        at="spec",
    )


def _amount_rule(name: str) -> Rule:
    attribute = _ATTRIBUTES.get(name, name)
    return Rule(
        cel="self == '' || (isQuantity(self) && !quantity(self).isLessThan(quantity('0')))",
        message=f"spec.resources.{name} must be a quantity such as 500m, 2 or 4Gi, and not less than 0",
        field=f"spec.resources.{name}",
        holds=lambda spec, _: _is_amount(getattr(spec.resources, attribute)),
    )


def _cache_rule() -> Rule:
    return Rule(
        cel="self.persistence != 'Ephemeral' || !has(self.claimName) || self.claimName == ''",
        message="spec.modelCache.claimName must not be set with the persistence Ephemeral, which keeps nothing",
        field="spec.modelCache.claimName",
        holds=lambda spec, _: (
            not spec.model_cache or spec.model_cache.persistence != "Ephemeral" or not spec.model_cache.claim_name
        ),
        at="spec.modelCache",
    )


def _is_amount(text: str) -> bool:
    return not text or quantity(text) >= 0


def _metrics(spec: InferenceServiceSpec) -> tuple[Metric, ...]:
    return spec.autoscaling.metrics if spec.autoscaling else ()


_SCALING_RULES = (
    bounds_rule("spec.autoscaling", lambda spec: spec.autoscaling),
    Rule(
        cel="self.all(m, m.type != 'Pods' || (has(m.targetAverageValue) && isQuantity(m.targetAverageValue) && "
        "quantity(m.targetAverageValue).isGreaterThan(quantity('0'))))",
        message="spec.autoscaling.metrics of type Pods need a targetAverageValue above 0, such as 2 or 500m",
        field="spec.autoscaling.metrics",
        holds=lambda spec, _: all(
            metric.target_average_value and quantity(metric.target_average_value) > 0
            for metric in _metrics(spec)
            if metric.type == "Pods"
        ),
    ),
    Rule(
        cel=f"self.all(m, m.type != 'Resource' || (m.name in {list(SCALED_BY)} && has(m.targetAverageUtilization)))",
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

_PROBE_RULES = (
    *probe_rules("spec.probeOverrides.startup", lambda spec: spec.probe_overrides.startup),
    *probe_rules("spec.probeOverrides.liveness", lambda spec: spec.probe_overrides.liveness),
    *probe_rules("spec.probeOverrides.readiness", lambda spec: spec.probe_overrides.readiness, readiness=True),
)

RULES = (
    _name_rule(),
    _image_rule(),
    *(_amount_rule(name) for name in ("cpu", "memory", "hostMemory", "gpuMemory", "ephemeralStorage")),
    _cache_rule(),
    *_SCALING_RULES,
    *_PROBE_RULES,
)
