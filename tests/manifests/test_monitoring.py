"""The rules by which Prometheus tells our figures: they are PromQL, and about metrics that engines really have."""

from __future__ import annotations

import re

import promql_parser
import pytest

from modelyard.engines import ENGINES
from modelyard.engines.measured import FIGURES, sample_names
from modelyard.manifests.monitoring import pod_monitor, recording_rules

RULES = {rule["record"]: rule["expr"] for group in recording_rules() for rule in group["rules"]}
TOLD = {name for engine in ENGINES.values() for name in sample_names(engine.measures)}


def test_every_figure_has_a_rule() -> None:
    assert list(RULES) == [figure.name for figure in FIGURES]


@pytest.mark.parametrize("query", RULES.values(), ids=RULES)
def test_a_rule_is_a_query_that_keeps_only_our_labels(query: str) -> None:
    promql_parser.parse(query)
    assert query.count("by (namespace, kind, name)") == len(re.findall(r"\b(?:sum|avg) ", query))


def test_the_rules_use_every_metric_of_every_engine() -> None:
    used = {name for query in RULES.values() for name in re.findall(r"\b(?:llamacpp|vllm|tgi)[:_]\w+", query)}
    assert used == TOLD


def test_requests_of_all_engines_are_added_up() -> None:
    assert RULES["modelyard_engine_requests_running"] == (
        "sum by (namespace, kind, name) "
        "(llamacpp:requests_processing or vllm:num_requests_running or tgi_batch_current_size)"
    )


def test_only_engines_are_scraped_and_known_by_the_object_that_they_serve() -> None:
    (endpoint,) = pod_monitor()["spec"]["podMetricsEndpoints"]
    keep, kind, name = endpoint["relabelings"]
    assert re.fullmatch(keep["regex"], ENGINES["llamacpp"].container)
    assert not re.fullmatch(keep["regex"], "envoy")
    assert kind["sourceLabels"] == ["__meta_kubernetes_pod_label_modelyard_dev_kind"]
    assert name["sourceLabels"] == ["__meta_kubernetes_pod_label_app_kubernetes_io_instance"]
