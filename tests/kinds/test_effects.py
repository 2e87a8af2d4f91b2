"""No field is accepted and ignored: each that a case sets changes children or status in at least one case.

A field is taken out of the object of a case, and the case is played again. If all comes out as before, wherever a case
sets the field, either the field has no effect or no case shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from modelyard.core.errors import SpecInvalid
from modelyard.kinds.agent import AGENT
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.mcp import MCP
from modelyard.kinds.orchestrator import ORCHESTRATOR
from tests.kinds.cases import VALID_CASES, play

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Json
    from modelyard.kinds.contract import Kind
    from tests.kinds.cases import Case

Path = tuple[str | int, ...]

DEFAULTS = {
    "Gateway": {"auth.provider", "providers", "telemetry.traces.exporter.otlp.protocol"},
    "MCP": {"podSecurityContext.runAsNonRoot", "resources.requests"},
}
"""Fields with one possible value, or whose cases state the default."""
REFUSED = {"hpa.config.scaleTargetRef.apiVersion"}
"""The object that an autoscaler scales is refused unless it is the right one."""
SAID = {
    "Gateway": {
        "telemetry.metrics.exporter.otlp.endpoint",
        "telemetry.metrics.exporter.otlp.protocol",
        "telemetry.metrics.exporter.prometheus.host",
        "telemetry.metrics.exporter.prometheus.port",
        "telemetry.receiver.port",
    },
    "Agent": {"telemetry.receiver.port"},
    "Orchestrator": {
        "telemetry.metrics.exporter.prometheus.host",
        "telemetry.metrics.exporter.prometheus.port",
        "telemetry.metrics.port",
    },
}
"""Of a block without effect, which `FieldsIgnored` names, the parts are not named again."""


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Return the paths of all fields that hold no further ones."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, place))
    elif path:
        yield path


def without(value: Any, path: Path) -> Any:
    """Return a value without what stands at a path."""
    head, *rest = path
    if isinstance(value, list):
        assert isinstance(head, int)
        return [*value[:head], *([without(value[head], tuple(rest))] if rest else []), *value[head + 1 :]]
    return {
        name: without(inner, tuple(rest)) if name == head else inner
        for name, inner in value.items()
        if rest or name != head
    }


def name_of(path: Path) -> str:
    """Return a path as the docs write it."""
    return ".".join(str(step) for step in path if isinstance(step, str))


def outcome(kind: Kind, case: Case, spec: Json) -> bytes:
    """Return everything that comes of an object with this spec; empty: it is refused."""
    try:
        found = play(kind, msgspec.structs.replace(case, given=({**case.given[0], "spec": spec}, *case.given[1:])))
    except (SpecInvalid, KeyError):
        # What Kubernetes' own types require is refused by the API server alone.
        return b""
    return msgspec.json.encode((found.plan, found.status), enc_hook=str)


@pytest.mark.parametrize("kind", [GATEWAY, AGENT, MCP, ORCHESTRATOR], ids=lambda kind: kind.name)
def test_every_field_that_a_case_sets_has_an_effect_in_one(kind: Kind):
    shown: dict[str, bool] = {}
    for case in (case for of, case in VALID_CASES.values() if of is kind):
        spec: Json = case.given[0].get("spec") or {}
        before = outcome(kind, case, spec)
        for path in leaves(spec):
            if not shown.get(name_of(path)):
                shown[name_of(path)] = outcome(kind, case, without(spec, path)) != before
    known = DEFAULTS.get(kind.resource.kind, set()) | REFUSED | SAID.get(kind.resource.kind, set())
    assert {name for name, is_shown in shown.items() if not is_shown} <= known
