"""The rules of probes that users write, for the `rules` of kinds.

Kubernetes looks at a probe only inside a pod: without these rules the API server would store a bad one and then refuse
the Deployment that has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.kinds.contract import Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.core.objects import Json

_NUMBERS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS: Final = ("exec", "grpc", "httpGet", "tcpSocket")


def probe_rules(field: str, probe: Callable[[Any], Json | None], *, readiness: bool = False) -> tuple[Rule, ...]:
    """Return the rules of one probe; `probe` takes it from a spec, and returns None if the user has not written it."""

    def written(spec: Any) -> Json:
        return probe(spec) or {}

    numbers = Rule(
        cel=" && ".join(f"(!has(self.{name}) || self.{name} >= 0)" for name in _NUMBERS),
        message=f"{', '.join(_NUMBERS)} of {field} must not be negative; 0 is the default of Kubernetes",
        field=field,
        holds=lambda spec, _: all(_number(written(spec), name) >= 0 for name in _NUMBERS),
    )
    handler = Rule(
        cel=f"[{', '.join(f'has(self.{name})' for name in _HANDLERS)}].exists_one(one, one)",
        message=f"{field} must have exactly one of {', '.join(_HANDLERS)}",
        field=field,
        holds=lambda spec, _: probe(spec) is None or sum(name in written(spec) for name in _HANDLERS) == 1,
    )
    once = Rule(
        cel="!has(self.successThreshold) || self.successThreshold <= 1",
        message=f"successThreshold of {field} must be 1: only a readiness probe may ask for more",
        field=field,
        holds=lambda spec, _: _number(written(spec), "successThreshold") <= 1,
    )
    return (numbers, handler) if readiness else (numbers, handler, once)


def _number(probe: Json, name: str) -> int:
    """Return a number of a probe; 0 as well for what is none, which the API server refuses in its own words."""
    value = probe.get(name)
    return value if isinstance(value, int) else 0
