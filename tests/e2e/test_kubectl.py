"""`kubectl` on the printed kubeconfig does what it does in any cluster, because the API is real."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import aiohttp
import yaml

from tests.e2e.yards import NAMED, SECONDS, Yard, ask, condition, manifest, model, service
from tests.weights.fileserver import file_server

if TYPE_CHECKING:
    from pathlib import Path


async def test_get_shows_the_columns_of_the_kinds(yard: Yard) -> None:
    lines = (await yard.kubectl("get", "inferenceservices")).splitlines()
    assert lines[0].split() == ["NAME", "PHASE", "MODEL", "REPLICAS", "REASON", "ENDPOINT", "AGE"]
    assert lines[1].split()[:5] == ["yard", "Ready", "yard", "2", "InferenceReady"]
    node = json.loads(await yard.kubectl("get", "node", "this-machine", "-o", "json"))
    assert condition(node)["status"] == "True"


async def test_get_w_shows_changes_as_they_happen(yard: Yard) -> None:
    watching = await yard.kubectl_process("get", "model", "yard", "-w", "-o", "jsonpath={.metadata.labels.seen}{'\\n'}")
    assert watching.stdout
    try:
        async with asyncio.timeout(SECONDS):
            assert await watching.stdout.readline() == b"\n"
            await yard.kubectl("label", "model", "yard", "seen=now")
            await watching.stdout.readuntil(b"now\n")
    finally:
        watching.terminate()
        await watching.communicate()


async def test_top_shows_what_pods_and_the_machine_use(yard: Yard) -> None:
    pods = {pod["metadata"]["name"] for pod in await yard.pods("yard")}
    shown = {line.split()[0] for line in (await yard.kubectl("top", "pods", "--no-headers")).splitlines()}
    assert pods <= shown
    assert (await yard.kubectl("top", "nodes", "--no-headers")).split()[0] == "this-machine"


async def test_port_forward_leads_to_a_pod_and_to_a_service(yard: Yard) -> None:
    pod = (await yard.pods("yard"))[0]["metadata"]["name"]
    for target in (pod, "service/yard"):
        forwarding = await yard.kubectl_process("port-forward", target, ":8080")
        assert forwarding.stdout
        try:
            async with asyncio.timeout(SECONDS):
                place = (await forwarding.stdout.readline()).decode().split()[2]
                url = f"http://{place}/v1/chat/completions"
                answers = await asyncio.gather(*(ask(url, "Which model are you?") for _ in range(4)))
                pieces = await streamed(url)
        finally:
            forwarding.terminate()
            await forwarding.communicate()
        assert all(answer.startswith(NAMED["yard"]) for answer in answers)
        assert len(pieces) > 3
        assert pieces[-1] == "data: [DONE]"


async def streamed(url: str) -> list[str]:
    body = {"messages": [{"role": "user", "content": "Which model are you?"}], "stream": True}
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        return [line.decode().strip() async for line in answer.content if line.strip()]


async def test_describe_tells_conditions_and_events(yard: Yard) -> None:
    told = await yard.kubectl("describe", "inferenceservice", "yard")
    assert "InferenceReady" in told
    pod = (await yard.pods("yard"))[0]["metadata"]["name"]
    told = await yard.kubectl("describe", "pod", pod)
    assert "this-machine" in told
    assert "Initialized" in told


async def test_explain_describes_every_field(yard: Yard) -> None:
    told = await yard.kubectl("explain", "inferenceservice.spec.contextSize")
    assert "the context, in tokens" in told


async def test_apply_works_on_both_sides_and_says_what_is_wrong(yard: Yard, tmp_path: Path) -> None:
    file = manifest(tmp_path / "more.yaml", service("applied", "yard", replicas=0))
    assert "created" in await yard.kubectl("apply", "-f", str(file))
    assert "serverside-applied" in await yard.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    manifest(file, service("applied", "yard", replicas=-1))
    code, _, complaint = await yard.try_kubectl("apply", "-f", str(file))
    assert code == 1
    assert "spec.replicas" in complaint
    await yard.kubectl("delete", "inferenceservice", "applied")


async def test_edit_scale_rollout_status_wait_and_logs(yard: Yard, tmp_path: Path) -> None:
    await yard.apply(service("edited", "yard"))
    await yard.kubectl("wait", "--for=condition=Ready", "inferenceservice/edited", "--timeout=120s")
    first = await yard.pods("edited")

    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/^  modelRef:/  contextSize: 128\\n  modelRef:/' \"$1\"\n")
    editor.chmod(0o700)
    assert "edited" in await yard.kubectl("edit", "inferenceservice", "edited", KUBE_EDITOR=str(editor))
    await yard.until(lambda body: "128" in json.dumps(body["spec"]), "deployment", "edited")
    assert "successfully rolled out" in await yard.kubectl("rollout", "status", "deployment/edited")
    await yard.until_ready("edited")

    await yard.kubectl("scale", "inferenceservice/edited", "--replicas=2")
    await yard.until(lambda body: body["status"].get("readyReplicas") == 2, "inferenceservice", "edited")
    await yard.kubectl("wait", "--for=delete", "pod", first[0]["metadata"]["name"], "--timeout=120s")
    pods = [pod["metadata"]["name"] for pod in await yard.pods("edited")]

    assert "serving" in await yard.kubectl("logs", "deployment/edited", "-c", "llama-server")
    assert len((await yard.kubectl("logs", pods[0], "--tail=1")).splitlines()) == 1

    assert "deleted" in await yard.kubectl("delete", "inferenceservice", "edited")
    await yard.kubectl("wait", "--for=delete", "pod", "-l", "app=edited", "--timeout=120s")
    assert await yard.pods("edited") == []


async def test_previous_logs_are_there_after_a_restart(yard: Yard) -> None:
    job = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "twice"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "ghcr.io/modelyard/modelyard:any", "args": ["version"]}],
        },
    }
    await yard.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job))
    restarted = await yard.until(
        lambda body: body["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) > 0, "pod", "twice"
    )
    assert restarted["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 0
    assert (await yard.kubectl("logs", "twice", "--previous")).strip()
    await yard.kubectl("delete", "pod", "twice")


async def test_a_job_runs_to_its_end(yard: Yard) -> None:
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "ghcr.io/modelyard/modelyard:any", "args": ["version"]}],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"template": {"spec": pod}},
    }
    await yard.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job))
    await yard.kubectl("wait", "--for=condition=Complete", "job/once", "--timeout=120s")
    assert (await yard.kubectl("logs", "job/once")).strip()
    await yard.kubectl("delete", "job", "once")


async def test_services_are_reached_by_their_names_from_pods(yard: Yard) -> None:
    url = "http://yard.default.svc.cluster.local:8080/v1/models"
    pod = {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "ghcr.io/modelyard/modelyard:any",
                "args": ["fetch", url, "--to", "/out"],
                "volumeMounts": [{"name": "out", "mountPath": "/out"}],
            }
        ],
        "volumes": [{"name": "out", "emptyDir": {}}],
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "caller"}, "spec": pod}
    await yard.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))
    await yard.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/caller", "--timeout=120s")
    await yard.kubectl("delete", "pod", "caller")
    assert (await yard.ask("yard")).startswith(NAMED["yard"])


async def test_a_server_of_this_machine_is_looked_at_like_any_other_upstream(yard: Yard) -> None:
    near = model("near")
    async with file_server(b"no weights") as server:
        server.otherwise = server.no_ranges
        near["spec"]["source"] = server.url
        await yard.apply(near)
        body = await yard.until(lambda body: body["status"].get("sourceContentLength"), "model", "near")
    assert (body["status"]["sourceETag"], condition(body, "SourceDrifted")["reason"]) == (server.etag, "InSync")
    await yard.kubectl("delete", "model", "near")
