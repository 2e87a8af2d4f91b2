"""Which routing files a gateway can serve; any other would end it at its start."""

from __future__ import annotations

import pytest

from modelyard.core.reasons import Reason
from modelyard.kinds.gateway.routing_file import LONGEST, find_problem

TWO = "[{provider: groq, model: a}, {provider: openai, model: b}]"
BOMB = f"a: &a {TWO}\nmodels:\n" + "\n".join(f"  n{number}: {{deployments: *a}}" for number in range(300))


@pytest.mark.parametrize("strategy", ["", "strategy: round_robin, ", "strategy: '', "])
def test_names_with_two_deployments_are_served(strategy: str):
    assert find_problem(f"models: {{fast: {{{strategy}deployments: {TWO}}}}}", "spec.routing.config") is None


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("models: {", "is not YAML"),
        ("!!python/object:os.system {}", "is not YAML"),
        ("{" * 5000, "is not YAML"),
        ("[]", "has no names below `models`"),
        ("models: {}", "has no names below `models`"),
        ("models: [one]", "has no names below `models`"),
        ("models: {fast: }", "gives fast fewer than two deployments"),
        ("models: {fast: {deployments: [{provider: groq, model: a}]}}", "gives fast fewer than two deployments"),
        (f"models: {{fast: {{strategy: random, deployments: {TWO}}}}}", "gives fast a strategy other than round_robin"),
        (
            TWO.join(["models: {fast: {deployments: ", "}}"]).replace("groq", "nobody"),
            "gives fast a deployment without",
        ),
        (TWO.join(["models: {fast: {deployments: ", "}}"]).replace("model: a", "model: ''"), "without a model"),
        ("models: {fast: {deployments: [1, 2]}}", "gives fast a deployment without"),
        (f"models: {{fast: {{deployments: [{'{}, ' * 65}]}}}}", "gives fast more than 64 deployments"),
        (BOMB, "has more than 256 names"),
        ("#" * (LONGEST + 1), "is longer than 64 KiB"),
    ],
)
def test_what_the_gateway_cannot_serve_is_named(text: str, wrong: str):
    problem = find_problem(text, "spec.routing.config")
    assert problem
    assert problem.reason is Reason.ROUTING_INVALID
    assert wrong in problem.message
    assert "spec.routing.config" in problem.text
