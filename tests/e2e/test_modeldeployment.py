"""A ModelDeployment on one machine: Jobs that really fetch, from servers on loopback, and engines that answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from modelyard.local.raw_client import RawClient
from tests.e2e.yards import DATA, NAMED, SECONDS, all_processes, ask, condition, in_time
from tests.support.modeldeployments import RESOURCE
from tests.support.recorder import recording
from tests.weights.fileserver import file_server, serving
from tests.weights.hubserver import REPO, TOKEN, hub_server
from tests.weights.s3server import ACCESS, BUCKET, SECRET, s3_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.e2e.yards import Json, Yard
    from tests.support.recorder import Recorder

KIND = "modeldeployment"
CONTENT = (DATA / "yard.gguf").read_bytes()
GREEN = (DATA / "yard-green.gguf").read_bytes()
QUESTION = {"messages": [{"role": "user", "content": "Which model are you?"}], "temperature": 0}


def deployment(name: str, source: str, **spec: Any) -> Json:
    return {
        "apiVersion": RESOURCE.api_version,
        "kind": RESOURCE.kind,
        "metadata": {"name": name},
        "spec": {
            "modelName": name,
            "modelSource": source,
            "engine": "llamacpp",
            "args": ["--threads", "1"],
            "drain": {"delaySeconds": 0, "timeoutSeconds": 60},
            **spec,
        },
    }


def secret(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def in_phase(phase: str) -> Any:
    def holds(body: Json) -> bool:
        status = body.get("status", {})
        return status.get("phase") == phase and status["observedGeneration"] == body["metadata"]["generation"]

    return holds


@asynccontextmanager
async def recorded(yard: Yard) -> AsyncIterator[Recorder]:
    """Record every version of our objects. `kubectl get -w` would begin to look at a moment of its own."""
    admin = RawClient(yard.folder.kubeconfig)
    try:
        async with recording(admin, [RESOURCE], "default") as recorder:
            yield recorder
    finally:
        await admin.close()


async def test_it_walks_to_running_and_a_killed_download_goes_on_where_it_was(yard: Yard) -> None:
    async with recorded(yard) as recorder, file_server(CONTENT) as server:
        server.script = [server.good, server.held(2_000_000, asyncio.Event())]
        await yard.apply(deployment("walk", server.url))
        await yard.until(in_phase("Downloading"), KIND, "walk")
        os.kill(await downloader(2_000_000, yard.path), signal.SIGKILL)
        await yard.until(in_phase("Running"), KIND, "walk")
        await recorder.wait_for(RESOURCE, "default", "walk", lambda body: in_phase("Running")(body or {}))
        assert server.requests[-1].headers["Range"] == "bytes=2000000-"
    assert (await yard.answer_at_door("walk")).startswith(NAMED["yard"])
    phases = [version.status.get("phase") for version in recorder.history(RESOURCE, "default", "walk")]
    assert list(dict.fromkeys(filter(None, phases))) == ["Pending", "Downloading", "Deploying", "Running"]

    # Kubernetes removes the Job, and what it has brought stays.
    job = json.loads(await yard.kubectl("get", "jobs", "-l", "modeldeployment=walk", "-o", "json"))["items"][0]
    name = job["metadata"]["name"]
    await yard.kubectl("patch", "job", name, "--type=merge", "-p", '{"spec":{"ttlSecondsAfterFinished":0}}')
    await yard.kubectl("wait", "--for=delete", "--timeout=120s", f"job/{name}")
    await yard.kubectl("scale", "md", "walk", "--replicas=2")
    await yard.until(lambda body: body["status"].get("readyPods") == 2, KIND, "walk")
    assert await yard.kubectl("get", "jobs", "-l", "modeldeployment=walk", "-o", "name") == ""
    await yard.kubectl("delete", "md", "walk", "--timeout=120s")


async def test_another_source_is_served_when_it_is_verified_and_one_that_fails_changes_nothing(yard: Yard) -> None:
    async with file_server(CONTENT) as server, file_server(GREEN) as other:
        await yard.apply(deployment("change", server.url))
        await yard.until(in_phase("Running"), KIND, "change")
        where = await url(yard, "change")

        wrong = deployment("change", other.url, modelName="renamed", checksums={"model.gguf": "1" * 64})
        await yard.apply(wrong)
        failed = await yard.until(in_phase("Failed"), KIND, "change")
        assert condition(failed)["reason"] == "ModelChecksumMismatch"
        assert condition(failed)["message"].startswith("the earlier version is served for now: ")
        assert (condition(failed, "Available")["status"], failed["status"]["servedSource"]) == ("True", server.url)
        listed = await names_at_door(yard)
        assert "change" in listed
        assert "renamed" not in listed
        await yard.kubectl("scale", "md", "change", "--replicas=2")
        await yard.until(lambda body: in_phase("Failed")(body) and body["status"]["readyPods"] == 2, KIND, "change")
        await yard.answer_as("yard", where)

        await yard.kubectl("patch", "md", "change", "--type=merge", "-p", '{"spec":{"checksums":null}}')
        await yard.until(in_phase("Running"), KIND, "change")
        await yard.answer_as("yard-green", where)
        assert (await yard.answer_at_door("renamed")).startswith(NAMED["yard-green"])
    await yard.kubectl("delete", "md", "change", "--wait=false")


async def test_a_gated_repository_fails_at_once_and_its_token_lets_it_proceed(yard: Yard) -> None:
    async with hub_server() as hub:
        hub.files, hub.private = {"README.md": b"words", "m.gguf": CONTENT}, True
        await yard.apply(secret("hub", HF_ENDPOINT=hub.endpoint))
        await yard.apply(deployment("gated", f"huggingface://{REPO}", sourceSecretRef={"name": "hub"}))
        failed = await yard.until(in_phase("Failed"), KIND, "gated")
        assert condition(failed)["reason"] == "ModelSourceUnauthorized"
        assert "spec.sourceSecretRef" in condition(failed)["message"]
        await yard.apply(secret("hub", HF_ENDPOINT=hub.endpoint, HF_TOKEN=TOKEN))
        # The change of the Secret alone is noticed within a minute.
        await yard.kubectl("annotate", "md", "gated", "modelyard.dev/retry=now")
        running = await yard.until(in_phase("Running"), KIND, "gated")
    assert TOKEN not in json.dumps(running)
    assert TOKEN not in await yard.kubectl("get", "jobs,pods,events", "-o", "json")
    await yard.kubectl("delete", "md/gated", "secret/hub", "--wait=false")


async def test_a_source_that_does_not_fit_on_the_volume_fails_at_once_with_both_sizes(yard: Yard) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"ETag": '"one"'})
        response.content_length = 2**60
        await response.prepare(request)
        return response

    async with serving(endless) as port:
        await yard.apply(deployment("large", f"http://127.0.0.1:{port}/model.gguf"))
        failed = await yard.until(in_phase("Failed"), KIND, "large")
    assert condition(failed)["reason"] == "ModelTransferOutOfSpace"
    assert "1073741824.0 GiB are needed" in condition(failed)["message"]
    assert "raise spec.storage.size" in condition(failed)["message"]
    await yard.kubectl("delete", "md", "large", "--wait=false")


async def test_a_bucket_is_served(yard: Yard, tmp_path: Path) -> None:
    async with s3_server(tmp_path) as bucket:
        await bucket.put({"yard/model.gguf": CONTENT, "yard/README.md": b"words"})
        keys = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": bucket.endpoint}
        await yard.apply(
            secret("bucket", **keys),
            deployment("bucket", f"s3://{BUCKET}/yard", sourceSecretRef={"name": "bucket"}),
        )
        await yard.until(in_phase("Running"), KIND, "bucket")
    await yard.answer_as("yard", await url(yard, "bucket"))
    await yard.kubectl("delete", "md/bucket", "secret/bucket", "--wait=false")


async def test_streams_of_a_deprecated_model_are_read_to_their_end_and_no_new_request_gets_in(yard: Yard) -> None:
    async with file_server(CONTENT) as server:
        await yard.apply(deployment("leaving", server.url))
        await yard.until(in_phase("Running"), KIND, "leaving")
    where = await url(yard, "leaving")
    begun = asyncio.Event()
    streams = [asyncio.create_task(stream(where, begun)) for _ in range(40)]
    async with asyncio.timeout(SECONDS):
        await begun.wait()
    admin = RawClient(yard.folder.kubeconfig)
    await admin.patch(RESOURCE.path("default", "leaving"), {"spec": {"deprecated": True}})
    await admin.close()
    refused = asyncio.create_task(until_refused(where))
    answers = await asyncio.gather(*streams)
    assert [answer.rstrip().endswith("data: [DONE]") for answer in answers] == [True] * len(streams)
    await refused
    gone = await yard.until(in_phase("Decommissioned"), KIND, "leaving")
    assert gone["status"]["drainResult"] == "Idle"
    await yard.kubectl("delete", "md", "leaving", "--wait=false")


async def url(yard: Yard, name: str) -> str:
    return await yard.url(name, 8000)


async def stream(where: str, begun: asyncio.Event) -> str:
    """Ask for as many words as the model has, and return all that is answered."""
    body = {**QUESTION, "stream": True, "ignore_eos": True, "max_tokens": 200}
    pieces = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as session:
        async with session.post(where, json=body) as answer:
            assert answer.status == 200
            async for piece in answer.content.iter_any():
                begun.set()
                pieces.append(piece)
    return b"".join(pieces).decode()


async def until_refused(where: str) -> None:
    async with in_time(lambda: f"{where} is still open"):
        while True:
            try:
                await ask(where, "Is anybody there?")
            except aiohttp.ClientConnectorError:
                return
            except (aiohttp.ClientError, AssertionError):
                await asyncio.sleep(0.05)


async def names_at_door(yard: Yard) -> set[str]:
    """Return the names of all models at the one address for all of them."""
    async with aiohttp.ClientSession() as session, session.get(f"{yard.door}/models") as response:
        return {model["id"] for model in (await response.json())["data"]}


async def downloader(size: int, folder: Path) -> int:
    """Wait until a partial file has this size, and return the process that writes it."""
    async with in_time(lambda: "no download has come so far"):
        while True:
            with suppress(OSError):
                if any(file.stat().st_size >= size for file in folder.glob("volumes/*/*/*.partial")):
                    break
            await asyncio.sleep(0.05)
    fetching = (pid for pid, words in all_processes().items() if " fetch http" in words and str(folder) in words)
    return next(fetching)
