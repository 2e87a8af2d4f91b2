"""Which models a Gateway with a selector offers, by which names, and where its proxy finds them."""

from __future__ import annotations

import json
from typing import Any

from modelyard.core.resources import CONFIG_MAP
from tests.kinds.cases import VALID_CASES, play

CASE = "gateway/references: a selector offers models of all kinds that serve some, through one proxy"
CONFIG = "typed_per_filter_config"


def offered() -> dict[tuple[str, ...], str]:
    """Return the addresses that the proxy of the case leads to, by the names that lead there."""
    kind, case = VALID_CASES[CASE]
    (files,) = [child.body for child in play(kind, case).plan.apply if child.resource == CONFIG_MAP]
    (table,) = json.loads(files["data"]["routes.json"])["resources"]
    routes = [route for route in table["virtual_hosts"][0]["routes"] if "address" in route.get(CONFIG, {})]
    return {_names(route): route[CONFIG]["address"]["host_rewrite_literal"] for route in routes}


def _names(route: dict[str, Any]) -> tuple[str, ...]:
    (found,) = route["match"]["dynamic_metadata"]
    one_of = found["value"].get("or_match", {"value_matchers": [found["value"]]})["value_matchers"]
    return tuple(each["string_match"]["exact"] for each in one_of)


def test_every_kind_is_offered_by_the_names_that_its_server_takes():
    assert offered() == {
        ("chat", "weights"): "10.0.0.1:8080",
        ("gemma3:1b",): "10.0.0.2:11434",
        ("large", "llama-3-70b"): "10.0.0.3:8000",
        ("tracks", "gemma-3-1b"): "10.0.0.4:8080",
    }
