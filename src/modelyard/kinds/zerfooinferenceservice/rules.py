"""The validation rules of a ZerfooInferenceService, for what the types of its fields cannot say."""

from __future__ import annotations

import re

from modelyard.core.quantities import quantity
from modelyard.kinds.contract import Rule
from modelyard.kinds.shared.autoscale import bounds_rule
from modelyard.kinds.zerfooinferenceservice.api import ZERFOO, in_seconds

NAME_LIMIT = 55
"""The longest name of a child is NAME-primary, and Service names end at 63 characters."""
LONGEST_SECONDS = 3600

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_MODEL_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LENGTH = "(type({0}) == int ? duration(string({0}) + 'ns') : duration({0}))"


def _name_rule() -> Rule:
    return Rule(
        cel=f"self.metadata.name.matches('^{_NAME.pattern}$') && size(self.metadata.name) <= {NAME_LIMIT}",
        message=f"metadata.name must begin with a letter, hold only a-z, 0-9 and '-', and have at most {NAME_LIMIT} "
        "characters, because a Service is called <name>-primary",
        field="metadata.name",
        holds=lambda _, meta: len(meta.name) <= NAME_LIMIT and _NAME.fullmatch(meta.name) is not None,
        at="",
    )


def _model_rule() -> Rule:
    return Rule(
        cel=f"self.runtime == '{ZERFOO}' || self.modelRef.matches('^{_MODEL_NAME.pattern}$')",
        message="spec.modelRef must be the name of a Model of the same namespace, unless spec.runtime is zerfoo",
        field="spec.modelRef",
        holds=lambda spec, _: spec.runtime == ZERFOO or _MODEL_NAME.fullmatch(spec.model_ref) is not None,
        at="spec",
    )


def _canary_rule() -> Rule:
    return Rule(
        cel=f"self.runtime == '{ZERFOO}' || !has(self.canary) || "
        f"self.canary.modelRef.matches('^{_MODEL_NAME.pattern}$')",
        message="spec.canary.modelRef must be the name of a Model of the same namespace, unless spec.runtime is zerfoo",
        field="spec.canary.modelRef",
        holds=lambda spec, _: (
            spec.runtime == ZERFOO or not spec.canary or _MODEL_NAME.fullmatch(spec.canary.model_ref) is not None
        ),
        at="spec",
    )


def _duration_rule(name: str) -> Rule:
    length = _LENGTH.format("self")
    return Rule(
        cel=f"{length} > duration('0s') && {length} <= duration('{LONGEST_SECONDS}s')",
        message=f"spec.healthCheck.{name} must be longer than 0s and at most 1h",
        field=f"spec.healthCheck.{name}",
        holds=lambda spec, _: 0 < in_seconds(getattr(spec.health_check, name)) <= LONGEST_SECONDS,
    )


def _amount_rule(name: str, attribute: str) -> Rule:
    return Rule(
        cel="self == '' || (isQuantity(self) && !quantity(self).isLessThan(quantity('0')))",
        message=f"spec.resources.{name} must be a quantity such as 500m, 4 or 16Gi, and not less than 0",
        field=f"spec.resources.{name}",
        holds=lambda spec, _: _is_amount(getattr(spec.resources, attribute)),
    )


def _is_amount(text: str) -> bool:
    return not text or quantity(text) >= 0


_TIMEOUT_RULE = Rule(
    cel=f"{_LENGTH.format('self.timeout')} <= {_LENGTH.format('self.interval')}",
    message="spec.healthCheck.timeout must not be longer than spec.healthCheck.interval",
    field="spec.healthCheck.timeout",
    holds=lambda spec, _: in_seconds(spec.health_check.timeout) <= in_seconds(spec.health_check.interval),
    at="spec.healthCheck",
)

_STEP_RULES = (
    Rule(
        cel="!has(self.steps) || size(self.steps) == 0 || self.weight == 0",
        message="spec.canary.weight must be left out with spec.canary.steps, which have weights of their own",
        field="spec.canary.weight",
        holds=lambda spec, _: not spec.canary or not spec.canary.steps or spec.canary.weight == 0,
        at="spec.canary",
    ),
    Rule(
        cel="self.promote != 'Auto' || (has(self.steps) && size(self.steps) > 0)",
        message="spec.canary.promote: Auto needs spec.canary.steps, after which it promotes; add some, or remove it",
        field="spec.canary.promote",
        holds=lambda spec, _: not spec.canary or spec.canary.promote != "Auto" or bool(spec.canary.steps),
        at="spec.canary",
    ),
    Rule(
        cel=f"self.all(step, {_LENGTH.format('step.duration')} > duration('0s') && "
        f"(!has(step.maxP95Latency) || {_LENGTH.format('step.maxP95Latency')} > duration('0s')))",
        message="spec.canary.steps must have a duration longer than 0s, and a maxP95Latency longer than 0s or none",
        field="spec.canary.steps",
        holds=lambda spec, _: all(
            in_seconds(step.duration) > 0 and (step.max_p95_latency is None or in_seconds(step.max_p95_latency) > 0)
            for step in (spec.canary.steps if spec.canary else ())
        ),
    ),
)

_SCALING_RULES = (
    Rule(
        cel="(self.minReplicas > 0) == (self.maxReplicas > 0)",
        message="spec.minReplicas and spec.maxReplicas must both be set, for an autoscaler, or neither of them",
        field="spec.minReplicas",
        holds=lambda spec, _: (spec.min_replicas > 0) == (spec.max_replicas > 0),
        at="spec",
    ),
    bounds_rule("spec", lambda spec: spec),
)

RULES = (
    _name_rule(),
    _model_rule(),
    _canary_rule(),
    *_STEP_RULES,
    *(_duration_rule(name) for name in ("interval", "timeout")),
    _TIMEOUT_RULE,
    *(_amount_rule(*names) for names in (("cpu", "cpu"), ("memory", "memory"), ("gpuMemory", "gpu_memory"))),
    *_SCALING_RULES,
)
