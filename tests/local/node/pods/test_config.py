"""Variables and volumes of pods come from where the pod says."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.objects import Metadata
from modelyard.local.node.pods.config_sources import ConfigMissing
from modelyard.local.node.pods.downward_api import PodContext
from modelyard.local.node.pods.volumes import Volumes, _host_path
from modelyard.local.node.podspec import HostPath, PodSpec, Volume
from modelyard.local.node.storage.pod_folders import PodFolder
from modelyard.local.node.storage.provisioner import PROVISIONER
from tests.local.node.yard import Yard, shell, waiting, yard_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.kube.client import Client
    from modelyard.local.cluster import Cluster

Json = dict[str, Any]

NO_CLIENT: Client = None  # type: ignore[assignment]  # for volumes that ask nothing of the API server
PRINT_ENV = """exec python3 -c 'import os, json; print(json.dumps(dict(os.environ)))'"""


async def _env(yard: Yard, container: Json, **spec: Any) -> dict[str, str]:
    """Return the variables that a container sees."""
    await yard.start(shell(PRINT_ENV, **container), restartPolicy="Never", **spec)
    found: dict[str, str] = json.loads(yard.log(await yard.over()))
    return found


async def _surroundings(yard: Yard) -> None:
    await yard.create("secrets", "secret", stringData={"password": "hush", "user": "me"})
    raw = b64encode(b"\xff").decode()
    await yard.create("configmaps", "config", data={"colour": "green"}, binaryData={"raw": raw})


async def test_variables_come_from_everywhere_a_pod_can_name(yard: Yard) -> None:
    await _surroundings(yard)
    variables = [
        {"name": "PLAIN", "value": "v"},
        {"name": "JOINED", "value": "$(PLAIN)-$(P_user)"},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "password"}}},
        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "colour"}}},
        {"name": "ABSENT", "valueFrom": {"secretKeyRef": {"name": "no", "key": "no", "optional": True}}},
        {"name": "RAW", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "raw", "optional": True}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    container = {
        "env": variables,
        "envFrom": [{"prefix": "P_", "secretRef": {"name": "secret"}}, {"configMapRef": {"name": "config"}}],
        "resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "1Gi"}},
    }
    env = await _env(yard, container, hostname="worker-0")
    expected = {
        "PLAIN": "v",
        "JOINED": "v-me",
        "PASSWORD": "hush",
        "COLOUR": "green",
        "colour": "green",
        "P_user": "me",
        "POD": "pod",
        "CPUS": "250",
        "MEMORY": "1024",
        "HOSTNAME": "worker-0",
    }
    assert {name: env.get(name) for name in expected} == expected
    assert env["IP"].startswith("127.97.")
    # What is in `binaryData` is for files only.
    assert env.keys().isdisjoint({"ABSENT", "RAW", "raw"})


async def test_variables_of_the_user_do_not_reach_pods(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hush")
    assert "HF_TOKEN" not in await _env(yard, {})


async def test_a_missing_secret_is_named_and_awaited(yard: Yard) -> None:
    reference = {"secretKeyRef": {"name": "later", "key": "key"}}
    await yard.start(shell("exec sleep 600", env=[{"name": "A", "valueFrom": reference}]))
    pod = await yard.until(lambda seen: waiting(seen).get("reason") == "CreateContainerConfigError")
    where = f"{yard.namespace}/later"
    assert waiting(pod)["message"] == f"Secret {where} does not exist; create it, or correct the reference"
    await yard.create("secrets", "later", stringData={"other": "x"})
    pod = await yard.until(lambda seen: "has no key" in waiting(seen).get("message", ""))
    assert waiting(pod)["message"] == f"Secret {where} has no key key; add the key, or correct the reference"
    await yard.admin.patch(f"{yard.path}/secrets/later", {"stringData": {"key": "x"}})
    await yard.ready()


async def test_volumes_of_all_kinds_are_folders(yard: Yard, tmp_path: Path) -> None:
    await _surroundings(yard)
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_text("host")
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    volumes = [
        {"name": "empty", "emptyDir": {}},
        {"name": "config", "configMap": {"name": "config", "items": [{"key": "colour", "path": "sub/colour"}]}},
        {"name": "secret", "secret": {"secretName": "secret"}},
        {"name": "downward", "downwardAPI": {"items": [labels]}},
        {"name": "host", "hostPath": {"path": str(tmp_path / "host")}},
        {
            "name": "projected",
            "projected": {
                "sources": [
                    {"secret": {"name": "secret", "items": [{"key": "user", "path": "user"}]}},
                    {"configMap": {"name": "config"}},
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
                ]
            },
        },
    ]
    mounts = [{"name": each["name"], "mountPath": f"/mnt/{each['name']}"} for each in volumes]
    mounts.append({"name": "empty", "mountPath": "/deep/er", "subPath": "part"})
    script = """
    cd /mnt/empty; echo made > /deep/er/file; cat part/file
    cat /mnt/config/sub/colour /mnt/secret/password /mnt/downward/labels /mnt/host/file; echo
    cat /mnt/projected/user /mnt/projected/colour; echo; cut -d. -f1 /mnt/projected/token
    """
    pod = yard.pod(shell(script, volumeMounts=mounts), volumes=volumes, restartPolicy="Never")
    pod["metadata"]["labels"] = {"app": "web"}
    await yard.admin.create(f"{yard.path}/pods", pod)
    lines = yard.log(await yard.over()).splitlines()
    assert lines[:3] == ["made", 'greenhushapp="web"host', "megreen"]
    assert lines[3].startswith("ey")


async def test_volumes_do_not_bring_back_a_state_folder_that_was_removed(tmp_path: Path) -> None:
    spec = PodSpec((), volumes=(Volume("work", empty_dir={}),))
    volumes = Volumes(NO_CLIENT, PodContext(Metadata(), spec, "127.97.0.1", {}), PodFolder(tmp_path / "state", "uid"))
    with pytest.raises(FileNotFoundError):
        await volumes.prepare()
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("kind", "made", "complaint"),
    [
        ("FileOrCreate", Path.is_file, None),
        ("DirectoryOrCreate", Path.is_dir, None),
        ("", None, "does not exist on this machine; create it"),
        ("Directory", None, "does not exist on this machine; create it"),
    ],
)
def test_a_path_of_the_host_is_made_if_its_type_says_so(
    tmp_path: Path, kind: str, made: Callable[[Path], bool] | None, complaint: str | None
) -> None:
    path = tmp_path / "new"
    if made:
        assert made(_host_path(HostPath(str(path), kind)))
    else:
        with pytest.raises(ConfigMissing, match=complaint):
            _host_path(HostPath(str(path), kind))


def test_a_missing_file_of_the_host_is_left_to_the_process(tmp_path: Path) -> None:
    assert _host_path(HostPath(str(tmp_path / "gone.gguf"), "File")) == tmp_path / "gone.gguf"


def test_a_path_of_the_host_that_is_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigMissing, match="is not of the type File; correct the path or the type"):
        _host_path(HostPath(str(tmp_path), "File"))


@pytest.mark.parametrize("provisioner", ["", PROVISIONER])
async def test_a_claim_is_the_folder_of_its_volume(yard: Yard, tmp_path: Path, provisioner: str) -> None:
    name, named = f"volume-{yard.namespace}", tmp_path / "volume"
    # One that was made here stays in the state folder, wherever that was when the volume was made.
    folder = yard.state.resolve() / "volumes" / name if provisioner else named
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    spec = {"capacity": size, "accessModes": modes, "storageClassName": "by-hand", "hostPath": {"path": str(named)}}
    meta = {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": provisioner}}
    await yard.admin.create("/api/v1/persistentvolumes", {"metadata": meta, "spec": spec})
    claim = {"accessModes": modes, "storageClassName": "by-hand", "volumeName": name, "resources": {"requests": size}}
    volumes = [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}]
    container = shell("echo kept > /models/file", volumeMounts=[{"name": "models", "mountPath": "/models"}])
    await yard.start(container, volumes=volumes, restartPolicy="Never")
    pod = await yard.until(lambda seen: waiting(seen).get("reason") == "CreateContainerConfigError")
    where = f"{yard.namespace}/models"
    assert waiting(pod)["message"] == f"PersistentVolumeClaim {where} does not exist; create it"
    await yard.create("persistentvolumeclaims", "models", spec=claim)
    await yard.over()
    assert (folder / "file").read_text() == "kept\n"
    assert named.exists() == (named == folder)
    await yard.admin.delete(f"/api/v1/persistentvolumes/{name}")


async def test_files_of_a_volume_follow_their_source(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async with yard_of(cluster, namespace, tmp_path, volumes=0.05) as yard:
        await _surroundings(yard)
        labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
        volumes = [
            {"name": "config", "configMap": {"name": "config", "defaultMode": 0o755}},
            {"name": "downward", "downwardAPI": {"items": [labels]}},
        ]
        created = await yard.start(shell("exec sleep 600"), volumes=volumes)
        await yard.ready()
        file = yard.folder(created) / "volumes" / "config" / "colour"
        assert (file.read_text(), file.stat().st_mode & 0o777) == ("green", 0o700)
        await yard.admin.patch(f"{yard.path}/configmaps/config", {"data": {"colour": None, "shape": "round"}})
        await yard.admin.patch(f"{yard.path}/pods/pod", {"metadata": {"labels": {"app": "web"}}})
        told = yard.folder(created) / "volumes" / "downward" / "labels"
        async with asyncio.timeout(60):
            while not (file.parent / "shape").exists() or file.exists() or told.read_text() != 'app="web"':
                await asyncio.sleep(0.02)


async def test_nobody_else_can_read_what_belongs_to_a_pod(yard: Yard) -> None:
    await _surroundings(yard)
    volumes = [{"name": "secret", "secret": {"secretName": "secret"}}]
    created = await yard.start(shell("exec sleep 600"), volumes=volumes)
    await yard.ready()
    everything = [yard.folder(created), *yard.folder(created).rglob("*")]
    assert [path for path in everything if path.stat().st_mode & 0o077] == []


async def test_the_working_folder_and_temporary_files_can_be_in_a_volume(yard: Yard) -> None:
    volumes = [{"name": "work", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    mounts = [{"name": "work", "mountPath": "/work"}, {"name": "tmp", "mountPath": "/tmp"}]
    container = shell("pwd; echo $TMPDIR", workingDir="/work", volumeMounts=mounts)
    await yard.start(container, volumes=volumes, restartPolicy="Never")
    pod = await yard.over()
    assert yard.log(pod).splitlines() == [str(yard.folder(pod) / "volumes" / name) for name in ("work", "tmp")]
