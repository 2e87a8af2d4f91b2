"""What the kinds make of a downloader's end, against the downloader itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from modelyard import weights
from modelyard.core.exitcodes import Code
from modelyard.core.objects import Stored
from modelyard.core.reasons import Reason
from modelyard.core.resources import POD
from modelyard.kinds.shared import fetch_report

SOURCE = Path(weights.__file__).parent


def pod(*statuses: dict[str, object]) -> Stored:
    body = {"metadata": {"name": "p"}, "status": {"initContainerStatuses": statuses}}
    return Stored.from_dict(POD, body)


def test_every_way_in_which_a_fetch_fails_is_known():
    assert set(fetch_report.FAILURES) == set(Code) - {Code.OK, Code.STOPPED}


def test_every_option_that_a_remedy_of_the_downloader_names_is_said_in_words_of_the_kinds():
    texts = [text for file in SOURCE.glob("*.py") for text in re.findall(r'"[^"\n]*--[a-z][^"\n]*"', file.read_text())]
    # The kinds never pass these two together with what they clash with.
    options = {option for text in texts for option in re.findall(r"--[a-z0-9-]+", text)} - {"--all", "--link"}
    assert "--file" in options
    assert {option for option in options if fetch_report.with_field_names(option) == option} == set()


def test_only_sizes_are_rounded_and_long_numbers_in_names_stay():
    line = '{"message":"no file m-20240919.gguf among 1073741824 bytes of 1610612736 bytes","remedy":""}'
    ended = {"name": fetch_report.CONTAINER, "state": {"terminated": {"exitCode": 12, "message": line}}}
    report = fetch_report.report(pod(ended))
    assert report
    assert report.problem
    assert report.problem.message == "no file m-20240919.gguf among 1.0 GiB of 1.5 GiB"


def test_success_carries_what_was_fetched():
    line = '{"result":"ok","message":"","remedy":"","bytes":5,"sha256":"ab","file":"m.gguf"}'
    ended = {"name": fetch_report.CONTAINER, "state": {"terminated": {"exitCode": 0, "message": line}}}
    assert fetch_report.report(pod(ended)) == fetch_report.Report(bytes=5, sha256="ab", file="m.gguf")


@pytest.mark.parametrize(
    "odd", [{"bytes": -1}, {"bytes": 2**63}, {"sha256": "\x1b[2J"}, {"sha256": "a" * 500}, {"file": "a\nb"}]
)
def test_what_no_status_should_hold_is_not_believed(odd: dict[str, Any]):
    line = json.dumps({"result": "ok", "bytes": 1, "file": "m.gguf", **odd})
    ended = {"name": fetch_report.CONTAINER, "state": {"terminated": {"exitCode": 0, "message": line}}}
    assert fetch_report.report(pod(ended)) == fetch_report.Report()


def test_a_downloader_without_a_last_word_was_successful_all_the_same():
    ended = {"name": fetch_report.CONTAINER, "state": {"terminated": {"exitCode": 0}}}
    assert fetch_report.report(pod(ended)) == fetch_report.Report()


def test_nothing_is_known_of_a_pod_that_has_no_downloader_or_none_that_ended():
    assert fetch_report.report(pod()) is None
    assert fetch_report.pod_report(pod()) is None
    assert fetch_report.report(pod({"name": fetch_report.CONTAINER, "state": {"waiting": {}}})) is None


def test_a_downloader_that_runs_once_more_after_a_success_has_not_ended():
    again = {"name": fetch_report.CONTAINER, "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 0}}}
    assert fetch_report.report(pod(again)) is None
    assert fetch_report.running_downloader(pod(again)) == fetch_report.CONTAINER


def test_a_pod_has_its_weights_when_all_its_downloaders_have_ended_well():
    model = {"name": fetch_report.CONTAINER, "state": {"terminated": {"exitCode": 0}}}
    draft = {"name": f"draft-{fetch_report.CONTAINER}", "state": {"running": {}}}
    assert fetch_report.pod_report(pod(model, draft)) is None
    assert (
        fetch_report.pod_report(pod(model, {**draft, "state": {"terminated": {"exitCode": 0}}}))
        == fetch_report.Report()
    )


@pytest.mark.parametrize("code", [137, Code.STOPPED])
def test_a_downloader_that_was_ended_from_outside_tells_nothing_of_the_weights(code: int):
    ended = {"name": fetch_report.CONTAINER, "state": {"terminated": {"exitCode": code, "reason": "Error"}}}
    assert fetch_report.report(pod(ended)) is None


def test_a_downloader_that_lacked_memory_says_so():
    ended = {"name": fetch_report.CONTAINER, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    report = fetch_report.report(pod(ended))
    assert report
    assert report.problem
    assert report.problem.reason is Reason.OUT_OF_MEMORY


def test_a_word_that_is_no_json_is_no_word():
    ended = {"name": fetch_report.CONTAINER, "state": {"terminated": {"exitCode": 12, "message": "Killed"}}}
    report = fetch_report.report(pod(ended))
    assert report
    assert report.problem
    assert report.problem.message == "the source does not exist"


def test_the_result_is_no_progress():
    assert fetch_report.progress_text({"result": "ok", "bytes": 5}) == ""
    assert fetch_report.progress_text({}) == ""
    assert fetch_report.progress_text({"bytes": 0, "total": 50 * 2**20}) == "downloading: 0 of 50 MiB"


def test_small_sizes_have_a_decimal():
    assert fetch_report.progress_text({"bytes": 1_500_000, "total": 2_929_024}) == "downloading: 1.4 of 2.8 MiB"
