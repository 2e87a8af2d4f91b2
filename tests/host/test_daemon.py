"""A daemon that serves real models with real llama.cpp: its contract, call by call."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.host.daemons import GREEN, SMALL, YARD, Daemon, running, said

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BUDGET = 256 * 2**20


@pytest.fixture(scope="module")
async def daemon(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Daemon]:
    async with running(tmp_path_factory.mktemp("daemon"), "--memory=256Mi") as daemon:
        await daemon.ready(YARD, owner="team/yard")
        yield daemon


async def test_a_model_is_told_with_all_that_was_asked_for(daemon: Daemon) -> None:
    listed = (await daemon.call("GET", "/admin/models")).body
    (entry,) = listed["models"]
    assert entry.pop("loadedAt").endswith("Z")
    assert entry == {
        "id": YARD,
        "state": "ready",
        "memoryBytes": 64 * 2**20,
        "engine": "llamacpp",
        "priority": "normal",
        "evictionProtection": False,
        "restarts": 0,
        "inFlight": 0,
        "owner": "team/yard",
    }
    assert listed["host"].pop("memoryPressure") in ("normal", "warning", "critical")
    assert listed["host"] == {
        "memoryTotalBytes": BUDGET,
        "memoryFreeBytes": BUDGET - 64 * 2**20,
        "version": "0.1.0",
    }


async def test_a_model_is_found_by_its_encoded_id_and_by_a_query(daemon: Daemon) -> None:
    by_query = await daemon.call("GET", f"/admin/models?model={YARD}")
    assert (await daemon.entry(YARD))["id"] == by_query.body["id"] == YARD


async def test_two_models_are_served_side_by_side_and_unloaded_one_by_one(daemon: Daemon) -> None:
    flags = {"contextSize": 256, "parallel": 1, "flashAttention": True, "jinja": True, "cacheTypeK": "q8_0"}
    await daemon.ready(GREEN, options={**flags, "batchSize": 64, "uBatchSize": 32, "reasoningBudget": 0})
    answers = await asyncio.gather(daemon.ask(YARD), daemon.ask(GREEN))
    assert [said(answer)[:12] for answer in answers] == ["I am Yard, a", "I am Yard Gr"]
    gone = await daemon.call("DELETE", f"/admin/models?model={GREEN}")
    assert (gone.status, gone.body["state"]) == (202, "unloading")
    await daemon.until(GREEN, lambda entry: entry["state"] == "gone")
    assert len(daemon.engines) == 1
    assert said(await daemon.ask(YARD)).startswith("I am Yard, ")


async def test_a_stream_arrives_whole_and_is_the_same_as_the_answer_in_one_piece(daemon: Daemon) -> None:
    streamed = await daemon.ask(YARD, stream=True)
    lines = [line.removeprefix("data: ") for line in streamed.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    deltas = [choice["delta"].get("content") or "" for line in lines[:-1] for choice in json.loads(line)["choices"]]
    assert "".join(deltas) == said(await daemon.ask(YARD))


async def test_only_ready_models_are_listed_for_clients(daemon: Daemon) -> None:
    listed = await daemon.call("GET", "/v1/models", token="")
    assert [(model["id"], model["object"]) for model in listed.body["data"]] == [(YARD, "model")]


async def test_one_model_is_told_to_clients_by_its_encoded_id(daemon: Daemon) -> None:
    one = await daemon.call("GET", f"/v1/models/{quote(YARD, safe='')}", token="")
    listed = await daemon.call("GET", "/v1/models", token="")
    assert one.body == listed.body["data"][0]
    assert (await daemon.call("GET", "/v1/models/none", token="")).code == (404, "model_not_found")


async def test_the_same_request_again_changes_nothing(daemon: Daemon) -> None:
    before = daemon.engines
    again = await daemon.load(YARD, owner="team/yard")
    assert (again.status, again.body["state"]) == (200, "ready")
    assert daemon.engines == before


async def test_priority_and_protection_change_in_place(daemon: Daemon) -> None:
    before = daemon.engines
    changed = await daemon.load(YARD, owner="team/yard", priority="high", evictionProtection=True)
    assert (changed.body["priority"], changed.body["evictionProtection"]) == ("high", True)
    await daemon.load(YARD, owner="team/yard")
    assert daemon.engines == before


async def test_other_options_are_refused_until_it_is_unloaded(daemon: Daemon) -> None:
    assert (await daemon.load(YARD, options={"contextSize": 512})).code == (409, "Different")


async def test_what_does_not_fit_is_refused_with_the_numbers(daemon: Daemon) -> None:
    refused = await daemon.load(GREEN, memory="1Gi")
    assert refused.code == (507, "InsufficientMemory")
    assert str(2**30) in refused.body["error"]["message"]
    assert str(BUDGET) in refused.body["error"]["message"]
    assert await daemon.entry(GREEN) == {"state": "gone"}


async def test_a_need_that_is_known_only_after_the_download_is_refused_then(daemon: Daemon) -> None:
    assert (await daemon.load(GREEN, memory=0)).status == 202
    failed = await daemon.until(GREEN, lambda entry: entry["state"] == "failed")
    assert failed["error"]["code"] == "InsufficientMemory"
    assert failed["memoryBytes"] > 512 * 2**20
    assert (await daemon.ask(GREEN)).code == (503, "NotReady")
    # A failed one can be asked for again, with what it really needs.
    assert (await daemon.ready(GREEN, memory=SMALL))["memoryBytes"] == 64 * 2**20
    await daemon.call("DELETE", f"/admin/models?model={GREEN}")
    await daemon.until(GREEN, lambda entry: entry["state"] == "gone")


async def test_a_file_that_is_not_there_fails_and_says_so(daemon: Daemon) -> None:
    missing = f"{YARD}.missing"
    assert (await daemon.load(missing)).status == 202
    failed = await daemon.until(missing, lambda entry: entry["state"] == "failed")
    assert failed["error"]["code"] == "NotFound"
    assert (await daemon.call("DELETE", f"/admin/models?model={missing}")).status == 202
    await daemon.until(missing, lambda entry: entry["state"] == "gone")


async def test_a_file_outside_the_allowed_folders_is_refused(daemon: Daemon) -> None:
    await daemon.load("/etc/passwd")
    failed = await daemon.until("/etc/passwd", lambda entry: entry["state"] == "failed")
    assert failed["error"]["code"] == "Refused"
    await daemon.call("DELETE", "/admin/models?model=/etc/passwd")


@pytest.mark.parametrize("path", ["/admin/models", "/admin/models/x", "/admin/", "/admin/other"])
@pytest.mark.parametrize("token", ["", "wrong"])
async def test_nothing_of_admin_is_told_without_the_token(daemon: Daemon, path: str, token: str) -> None:
    assert (await daemon.call("GET", path, token=token)).code == (401, "Unauthorized")


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/metrics"])
async def test_probes_clients_and_scrapes_need_no_token(daemon: Daemon, path: str) -> None:
    assert (await daemon.call("GET", path, token="")).status == 200


async def test_the_token_can_be_replaced_while_the_daemon_runs(daemon: Daemon) -> None:
    file = daemon.folder / "token"
    before = file.read_text()
    file.write_text("another\n")
    try:
        assert (await daemon.call("GET", "/admin/models")).code == (401, "Unauthorized")
        assert (await daemon.call("GET", "/admin/models", token="another")).status == 200
        file.unlink()
        assert (await daemon.call("GET", "/admin/models", token="another")).code == (401, "Unauthorized")
    finally:
        file.write_text(before)


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/admin/models/unknown", None, (404, "NotFound")),
        ("DELETE", "/admin/models/unknown", None, (404, "NotFound")),
        ("DELETE", "/admin/models", None, (400, "BadRequest")),
        ("GET", "/nothing", None, (404, "NotFound")),
        ("PUT", "/admin/models", b"{}", (405, "BadRequest")),
        ("POST", "/admin/models", b"not JSON", (400, "BadRequest")),
        ("POST", "/admin/models", b'{"model": "\xff"}', (400, "BadRequest")),
        ("POST", "/admin/models", b"[" * 100_000, (400, "BadRequest")),
        ("POST", "/admin/models", b"x" * (2**20 + 1), (413, "TooLarge")),
        ("POST", "/v1/chat/completions", {"model": "unknown"}, (404, "model_not_found")),
        ("POST", "/v1/chat/completions", {}, (400, "BadRequest")),
        ("POST", "/v1/chat/completions", b"[]", (400, "BadRequest")),
        ("POST", "/v1/chat/completions", b'{"messages": ' + b"[" * 100_000, (400, "BadRequest")),
        ("GET", "/v1/chat/completions", None, (400, "BadRequest")),
    ],
)
async def test_every_error_has_one_form(daemon: Daemon, method: str, path: str, body: object, code: object) -> None:
    answer = await daemon.call(method, path, body)
    assert answer.code == code
    assert answer.body["error"]["message"]


async def test_metrics_count_what_was_served(daemon: Daemon) -> None:
    await daemon.ask(YARD)
    text = (await daemon.call("GET", "/metrics")).text
    assert f'modelyard_host_requests_total{{code="200",model="{YARD}"}}' in text
    assert 'modelyard_host_models{state="ready"} 1.0' in text
    (budget,) = re.findall(r"^modelyard_host_memory_budget_bytes (\S+)$", text, re.MULTILINE)
    assert float(budget) == BUDGET
