"""The figures of engines under one set of names, from pages as the engines serve them."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelyard.engines import ENGINES
from modelyard.engines.contract import Measures
from modelyard.engines.measured import FIGURES, Measured, Reading, measured, sample_names, together
from modelyard.net.metrics_page import samples

PAGES = Path(__file__).resolve().parents[1] / "data" / "metrics"
VLLM = ENGINES["vllm"].measures


def reading(engine: str, at: float = 100.0, **changed: float) -> Reading:
    """Return what a page of an engine says; `changed` has other values of some samples, without their prefix."""
    names = sample_names(ENGINES[engine].measures)
    found = samples((PAGES / f"{engine}.txt").read_text(), names)
    full = {name.rpartition(":")[2]: name for name in found}
    other = {full[name]: [value] for name, value in changed.items()}
    return Reading(at, {**found, **other})


def figures(found: Measured) -> dict[str, float]:
    """Return the figures that are told, by the end of their names."""
    told = {figure.name.removeprefix("modelyard_engine_"): figure.value(found) for figure in FIGURES}
    return {name: value for name, value in told.items() if value is not None}


def test_vllm_tells_everything() -> None:
    before = reading(
        "vllm",
        90.0,
        generation_tokens_total=3000,
        time_to_first_token_seconds_sum=3,
        time_to_first_token_seconds_count=15,
    )
    assert figures(measured(VLLM, reading("vllm"), before)) == {
        "tokens_per_second": 100.0,
        "time_to_first_token_seconds": 0.2,
        "requests_running": 3.0,
        "requests_waiting": 2.0,
        "kv_cache_usage_ratio": 0.25,
    }


def test_llamacpp_tells_tokens_and_requests() -> None:
    before = reading("llamacpp", 96.5, tokens_predicted_total=0)
    assert figures(measured(ENGINES["llamacpp"].measures, reading("llamacpp"), before)) == {
        "tokens_per_second": 2.0,
        "requests_running": 0.0,
        "requests_waiting": 0.0,
    }


def test_tgi_tells_tokens_and_requests() -> None:
    before = reading("tgi", 90.0, tgi_request_generated_tokens_sum=2300)
    assert figures(measured(ENGINES["tgi"].measures, reading("tgi"), before)) == {
        "tokens_per_second": 50.0,
        "requests_running": 4.0,
        "requests_waiting": 1.0,
    }


@pytest.mark.parametrize("engine", ["vllm", "llamacpp", "tgi"])
def test_the_first_reading_tells_what_needs_no_second(engine: str) -> None:
    found = figures(measured(ENGINES[engine].measures, reading(engine), None))
    assert found.keys() - {"kv_cache_usage_ratio"} == {"requests_running", "requests_waiting"}


def test_a_counter_that_began_anew_counts_from_zero() -> None:
    before = reading("vllm", 90.0, generation_tokens_total=9000)
    assert measured(VLLM, reading("vllm"), before).tokens_per_second == 400.0


def test_without_new_answers_there_is_no_time_to_the_first_token() -> None:
    found = figures(measured(VLLM, reading("vllm"), reading("vllm", 90.0)))
    assert "time_to_first_token_seconds" not in found
    assert found["tokens_per_second"] == 0.0


def test_two_readings_of_one_moment_tell_no_rate() -> None:
    assert measured(VLLM, reading("vllm"), reading("vllm")).tokens_per_second is None


def test_what_is_no_number_is_not_told() -> None:
    found = figures(measured(VLLM, reading("vllm", kv_cache_usage_perc=float("nan")), None))
    assert found == {"requests_running": 3.0, "requests_waiting": 2.0}


def test_an_older_name_of_the_cache_is_known_and_engines_of_one_server_are_averaged() -> None:
    now = Reading(1.0, {"vllm:gpu_cache_usage_perc": [0.2, 0.6], "vllm:num_requests_running": [1.0, 2.0]})
    assert figures(measured(VLLM, now, None)) == {"kv_cache_usage_ratio": 0.4, "requests_running": 3.0}


def test_pods_of_one_object_are_added_up() -> None:
    fast = Measured(30.0, 2.0, 0.0, 0.2, first_tokens=3.0, first_token_seconds=0.3)
    slow = Measured(10.0, 1.0, 4.0, 0.6, first_tokens=1.0, first_token_seconds=0.5)
    new = Measured(requests_running=0.0)
    assert figures(together((fast, slow, new))) == {
        "tokens_per_second": 40.0,
        "time_to_first_token_seconds": 0.2,
        "requests_running": 3.0,
        "requests_waiting": 4.0,
        "kv_cache_usage_ratio": 0.4,
    }
    assert figures(together(())) == {}


def test_an_engine_without_metrics_is_asked_for_nothing() -> None:
    assert sample_names(Measures()) == ()
    assert sample_names(ENGINES["generic"].measures) == ()


@pytest.mark.parametrize("engine", ["vllm", "llamacpp", "tgi"])
def test_the_metric_that_services_scale_by_is_one_of_the_measures_or_has_its_own_spelling(engine: str) -> None:
    spelled = ENGINES[engine].metric.replace("tgi:", "tgi_")
    assert spelled in sample_names(ENGINES[engine].measures)
