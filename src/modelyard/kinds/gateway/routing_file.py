"""Whether the routing file of a gateway is one that its image can serve.

Pure. The image ends at start with a file that it cannot read, and with exit code 0, so nothing else would name the
cause. `decide` asks before anything is rolled out.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.core.text import clean
from modelyard.kinds.gateway.providers import KNOWN

LONGEST: Final = 65536
"""Characters of a file. Longer ones are refused before they are parsed."""
_MOST_NAMES: Final = 256
_MOST_DEPLOYMENTS: Final = 64
_FEWEST_DEPLOYMENTS: Final = 2
_STRATEGIES: Final = ("", None, "round_robin")


def find_problem(text: str, field: str) -> Problem | None:
    """Return what is wrong with a routing file; None: the image can serve it."""
    wrong = _find_mistake(text)
    remedy = f"correct {field}; every name needs at least two deployments with provider and model"
    return Problem(Reason.ROUTING_INVALID, f"the routing file of {field} {wrong}", remedy) if wrong else None


def _find_mistake(text: str) -> str:
    if len(text) > LONGEST:
        return f"is longer than {LONGEST // 1024} KiB"
    try:
        read = yaml.load(text, yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return "is not YAML"
    models = read.get("models") if isinstance(read, dict) else None
    if not isinstance(models, dict) or not models:
        return "has no names below `models`"
    # Counted first: aliases of YAML make a short text as large as its author likes.
    if len(models) > _MOST_NAMES:
        return f"has more than {_MOST_NAMES} names"
    wrong = ((name, _find_route_mistake(route)) for name, route in models.items())
    return next((f"gives {clean(str(name), 64)} {mistake}" for name, mistake in wrong if mistake), "")


def _find_route_mistake(route: Any) -> str:
    deployments = route.get("deployments") if isinstance(route, dict) else None
    if not isinstance(deployments, list) or len(deployments) < _FEWEST_DEPLOYMENTS:
        return "fewer than two deployments"
    if len(deployments) > _MOST_DEPLOYMENTS:
        return f"more than {_MOST_DEPLOYMENTS} deployments"
    if route.get("strategy") not in _STRATEGIES:
        return "a strategy other than round_robin"
    if not all(_is_deployment(one) for one in deployments):
        return "a deployment without a provider that the gateway knows, or without a model"
    return ""


def _is_deployment(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    provider, model = value.get("provider"), value.get("model")
    return isinstance(provider, str) and provider in KNOWN and isinstance(model, str) and bool(model)
