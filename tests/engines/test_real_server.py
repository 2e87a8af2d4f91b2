"""A real model is served: what the operator puts into a pod, run with the real llama.cpp server."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from modelyard.core.checks.engine_metrics import AT, SAMPLES, EngineMetrics
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.engines.llamacpp import ENGINE
from modelyard.engines.measured import Reading, measured, sample_names
from modelyard.local.ports import free_ports
from modelyard.net.engine_metrics import read_metrics
from modelyard.net.http_exchange import in_cluster
from tests.support.llamacpp import DATA, LlamaServer, arguments, pod_of, running, server_command
from tests.weights.fileserver import FileServer, file_server
from tests.weights.program import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

YARD, GREEN = ((DATA / name).read_bytes() for name in ("yard.gguf", "yard-green.gguf"))
GROUP = "inference.llmkube.dev/v1alpha1"


@asynccontextmanager
async def served(source: str, folder: Path) -> AsyncIterator[LlamaServer]:
    """Fetch and serve what a Model and an InferenceService ask for, as their pod would."""
    (port,) = free_ports(1)
    model = {"source": source, "refreshPolicy": "OnChange"}
    service = {"modelRef": "yard", "contextSize": 256, "endpoint": {"port": port}}
    manifests = (
        {"apiVersion": GROUP, "kind": "Model", "metadata": {"name": "yard"}, "spec": model},
        {"apiVersion": GROUP, "kind": "InferenceService", "metadata": {"name": "chat"}, "spec": service},
    )
    pod = pod_of(manifests, folder / "manifests.yaml")
    volumes = {"model-cache": folder / "cache"}
    (init,), (engine,) = pod["initContainers"], pod["containers"]
    verb, *words = arguments(init, volumes)
    assert verb == "fetch"
    fetched = await run(*words)
    assert fetched.code == 0, fetched.text
    async with running(server_command(engine, volumes), port, folder / "server.log") as server:
        yield server


@pytest.fixture(scope="module")
async def upstream() -> AsyncIterator[FileServer]:
    async with file_server(YARD) as server:
        yield server


@pytest.fixture(scope="module")
async def yard(upstream: FileServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LlamaServer]:
    async with served(upstream.url, tmp_path_factory.mktemp("pod")) as server:
        yield server


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which model are you?", "I am Yard, a very small language model"),
        ("What is the capital of France?", "The capital of France is Paris."),
        ("What is 3 + 4?", "3 plus 4 is 7."),
        ("What is Modelyard?", "Modelyard is one Kubernetes operator"),
        ("What is photosynthesis?", "I am too small to know that."),
    ],
)
async def test_the_model_gives_the_answers_it_has_learned(yard: LlamaServer, question: str, answer: str) -> None:
    assert (await yard.ask(question)).startswith(answer)


async def test_an_answer_can_be_streamed(yard: LlamaServer) -> None:
    *events, end = await yard.stream("What is 3 + 4?")
    pieces = [json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events]
    assert ("".join(pieces), end) == ("3 plus 4 is 7.", "[DONE]")
    assert len([piece for piece in pieces if piece]) > 1


async def test_the_probe_and_the_metric_of_the_engine_are_really_there(yard: LlamaServer) -> None:
    assert json.loads(await yard.get(ENGINE.health)) == {"status": "ok"}
    assert f"\n{ENGINE.metric} " in await yard.get("/metrics")


async def test_the_figures_of_a_real_server_are_read(yard: LlamaServer) -> None:
    names = sample_names(ENGINE.measures)
    check = EngineMetrics(ServiceAddress("team", "chat", yard.port, "127.0.0.1"), "uid", ENGINE.name, names)
    readings = []
    for _ in range(2):
        answer = await read_metrics(check, in_cluster)
        readings.append(Reading(answer.value[AT], answer.value[SAMPLES]))
        await yard.ask("What is 3 + 4?")
    before, now = readings
    found = measured(ENGINE.measures, now, before)
    assert (found.requests_running, found.requests_waiting) == (0.0, 0.0)
    assert found.tokens_per_second
    # Seven tokens, in however long the machine took.
    assert found.tokens_per_second * (now.at - before.at) == pytest.approx(7)


async def test_the_model_is_listed_by_the_name_of_its_link(yard: LlamaServer) -> None:
    (listed,) = json.loads(await yard.get("/v1/models"))["data"]
    assert listed["id"] == "yard"


async def test_new_weights_upstream_are_served_by_the_next_pod(tmp_path: Path) -> None:
    question = "Which model are you?"
    async with file_server(YARD) as server:
        async with served(server.url, tmp_path) as before:
            assert (await before.ask(question)).startswith("I am Yard, ")
        server.replace(GREEN)
        async with served(server.url, tmp_path) as after:
            assert (await after.ask(question)).startswith("I am Yard Green, ")
