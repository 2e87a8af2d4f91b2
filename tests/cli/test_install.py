"""`modelyard install` and `uninstall` on a real API server of their own: what they remove, other tests need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from modelyard.core.image import IMAGE
from modelyard.core.resources import DEPLOYMENT, LEASE, SERVICE_ACCOUNT, VOLUME_CLAIM
from modelyard.kinds.model import MODEL
from modelyard.local.controlplane import ControlPlane
from modelyard.local.up.operator_flags import IDENTITY
from modelyard.manifests import operator
from tests.cli.running import examples, run
from tests.support.services import model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

Json = dict[str, Any]

OPERATOR = DEPLOYMENT.path("modelyard-system", "modelyard")
ACCOUNT = SERVICE_ACCOUNT.path("modelyard-system", "modelyard")
CACHE = VOLUME_CLAIM.path("default", "llmkube-model-cache")
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{MODEL.resource.label}"


@pytest.fixture(scope="module")
async def bare(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """An API server on which nothing is installed yet."""
    controlplane = ControlPlane(tmp_path_factory.mktemp("bare"), assets, workloads=False, durable=False)
    await controlplane.start()
    try:
        yield controlplane
    finally:
        await controlplane.stop()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("get", 6, "are not defined on this cluster; install Modelyard with `modelyard install`"),
        ("explain model/tiny", 6, "models.inference.llmkube.dev is not defined on this cluster"),
        ("ask isvc/chat Hello!", 6, "inferenceservices.inference.llmkube.dev is not defined on this cluster"),
        ("ask chat Hello!", 6, "are not defined on this cluster; install Modelyard with `modelyard install`"),
        ("queue", 0, "nothing waits for GPUs"),
        ("cache -A", 0, "no claim caches weights here"),
        ("cache rm", 3, "there are no such weights that nothing uses"),
        ("doctor", 1, "it is not installed; run `modelyard install`"),
        ("uninstall", 3, "Modelyard is not installed on this cluster"),
    ],
)
async def test_a_cluster_without_definitions_gets_a_clear_line(
    bare: ControlPlane, words: str, code: int, says: str
) -> None:
    ran = await run(*words.split(), kubeconfig=bare.kubeconfig)
    assert ran.code == code
    assert says in ran.out + ran.err


async def test_the_life_of_an_installation(bare: ControlPlane) -> None:
    admin, kubeconfig = bare.admin, bare.kubeconfig
    installed, uninstalled = examples("install.md")
    ran = await run(*installed.words, kubeconfig=kubeconfig)
    assert (ran.code, ran.out) == (0, installed.out)
    container = (await admin.get(OPERATOR))["spec"]["template"]["spec"]["containers"][0]
    image = "registry.example.com/modelyard:0.1.0"
    assert container["image"] == image
    assert {"name": "MODELYARD_INIT_CONTAINER_IMAGE", "value": image} in container["env"]
    assert (await run("get", kubeconfig=kubeconfig)).code == 0

    again = await run(*installed.words, "-o", "json", kubeconfig=kubeconfig)
    steps = json.loads(again.out)["steps"]
    assert len(steps) == len(installed.out.splitlines()) - 1
    assert {step["action"] for step in steps} == {"unchanged"}
    assert "nothing has changed" in again.err

    await admin.create(MODEL.resource.path("default"), model("default"))
    await admin.create(VOLUME_CLAIM.path("default"), claim())
    ran = await run(*uninstalled.words, kubeconfig=kubeconfig)
    assert (ran.code, ran.out) == (0, uninstalled.out)
    assert not await admin.answers(OPERATOR)
    assert not await admin.answers(ACCOUNT)
    assert await admin.answers(MODEL.resource.path("default", "tiny"))
    assert await admin.answers(CACHE)


async def test_older_definitions_are_found_and_renewed_and_their_objects_stay(bare: ControlPlane) -> None:
    admin, kubeconfig = bare.admin, bare.kubeconfig
    await run("install", kubeconfig=kubeconfig)
    live = await admin.get(DEFINITION)
    del live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["sha256"]
    await admin.patch(DEFINITION, {"spec": {"versions": live["spec"]["versions"]}})
    examined = json.loads((await run("doctor", "-o", "json", kubeconfig=kubeconfig)).out)["findings"]
    wrong = [one["check"] for one in examined if one["check"].startswith("definition ") and one["state"] == "wrong"]
    assert wrong == [f"definition {MODEL.resource.label}"]

    steps = json.loads((await run("install", "-o", "json", kubeconfig=kubeconfig)).out)["steps"]
    assert [step["name"] for step in steps if step["action"] != "unchanged"] == [MODEL.resource.label]
    assert await admin.answers(MODEL.resource.path("default", "tiny"))


def claim() -> Json:
    labels = {"app.kubernetes.io/component": "model-cache"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": "llmkube-model-cache", "labels": labels}, "spec": spec}


async def test_an_installation_of_helm_is_left_to_helm(bare: ControlPlane) -> None:
    await run("install", kubeconfig=bare.kubeconfig)
    await annotate(bare, "yard")
    for words in (("install",), ("uninstall",)):
        ran = await run(*words, kubeconfig=bare.kubeconfig)
        assert ran.code == 1
        assert "installed here by Helm; use `helm upgrade yard -n modelyard-system`" in ran.err
    await annotate(bare, None)


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"meta.helm.sh/release-name": "yard"}, "installed here by Helm; use `helm upgrade yard -n default`"),
        ({}, "the Deployment default/yard-modelyard runs an operator already"),
    ],
)
async def test_a_second_operator_is_not_installed_beside_one_of_another_name(
    bare: ControlPlane, annotations: Json, said: str
) -> None:
    body = operator.deployment(IMAGE)
    body["metadata"] |= {"name": "yard-modelyard", "namespace": "default", "annotations": annotations}
    await run("uninstall", kubeconfig=bare.kubeconfig)
    await bare.admin.create(DEPLOYMENT.path("default"), body)
    try:
        for words in (("install",), ("uninstall",)):
            ran = await run(*words, kubeconfig=bare.kubeconfig)
            assert (ran.code, ran.out) == (1, "")
            assert said in ran.err
        examined = json.loads((await run("doctor", "-o", "json", kubeconfig=bare.kubeconfig)).out)["findings"]
        told = {one["check"]: one["message"] for one in examined}
        assert told["operator"] == f"0 of 2 pods of {IMAGE} are ready"
    finally:
        await bare.admin.delete(DEPLOYMENT.path("default", "yard-modelyard"))
        await run("install", kubeconfig=bare.kubeconfig)


async def test_a_machine_that_is_up_keeps_its_own_operator(bare: ControlPlane) -> None:
    leases = LEASE.path("modelyard-system")
    lease = {"metadata": {"name": "modelyard"}, "spec": {"holderIdentity": IDENTITY}}
    await bare.admin.create(leases, lease)
    try:
        for words in (("install",), ("uninstall",)):
            ran = await run(*words, kubeconfig=bare.kubeconfig)
            assert (ran.code, ran.out) == (1, "")
            assert "`modelyard down --purge` removes it" in ran.err
    finally:
        await bare.admin.delete(f"{leases}/modelyard")


async def annotate(bare: ControlPlane, release: str | None) -> None:
    await bare.admin.patch(OPERATOR, {"metadata": {"annotations": {"meta.helm.sh/release-name": release}}})


async def test_what_is_missing_is_said_with_its_exit_code(bare: ControlPlane, elsewhere: Path) -> None:
    stranger = bare.client_kubeconfig("stranger")
    for words in (("install",), ("uninstall",)):
        assert [(await run(*words, kubeconfig=one)).code for one in (elsewhere, stranger)] == [4, 5]


async def test_data_is_named_and_deleted_only_after_a_yes(bare: ControlPlane) -> None:
    """The last of this file: without controllers, the namespace of the operator does not come back."""
    admin, kubeconfig = bare.admin, bare.kubeconfig
    words = ("uninstall", "--definitions", "--weights")
    refused = await run(*words, kubeconfig=kubeconfig, text="n\n")
    assert refused.code == 1
    assert "  Model default/tiny\n  PersistentVolumeClaim default/llmkube-model-cache\n" in refused.err
    assert await admin.answers(OPERATOR)
    assert await admin.answers(MODEL.resource.path("default", "tiny"))

    done = await run(*words, "--yes", "-o", "yaml", kubeconfig=kubeconfig)
    steps = [(one["kind"], one["action"]) for one in yaml.safe_load(done.out)["steps"]]
    assert ("Model", "deleted") in steps
    assert ("PersistentVolumeClaim", "deleted") in steps
    assert "kept" not in dict(map(reversed, steps))
    assert "deletionTimestamp" in (await admin.get(CACHE))["metadata"]
    assert (await run("get", kubeconfig=kubeconfig)).code == 6
    again = await run("install", kubeconfig=kubeconfig)
    assert again.code == 1
    assert "being terminated" in again.err
