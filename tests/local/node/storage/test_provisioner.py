"""A claim is a folder on this machine, for as long as the claim lives."""

from __future__ import annotations

import asyncio
import stat
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.local.node.storage.provisioner import PROVISIONER, VolumeProvisioner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from modelyard.kube.client import Client
    from modelyard.local.controlplane import ControlPlane
    from modelyard.local.raw_client import RawClient

Json = dict[str, Any]
_SECONDS = 60.0
_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"


@asynccontextmanager
async def _serving(client: Client, state: Path) -> AsyncIterator[None]:
    running = asyncio.create_task(VolumeProvisioner(client, state).run())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.fixture
def admin(plane: ControlPlane) -> RawClient:
    return plane.admin


async def _until(admin: RawClient, path: str, reached: Callable[[Json], object]) -> Json:
    async with asyncio.timeout(_SECONDS):
        while not reached(found := await admin.get(path)):
            await asyncio.sleep(0.05)
    return found


async def _until_gone(admin: RawClient, path: str) -> None:
    async with asyncio.timeout(_SECONDS):
        while await admin.answers(path):
            await asyncio.sleep(0.05)


async def _claim(admin: RawClient, name: str, **spec: Any) -> None:
    wanted = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Gi"}}, **spec}
    await admin.create(_CLAIMS, {"metadata": {"name": name}, "spec": wanted})


async def _bound(admin: RawClient, name: str) -> Json:
    claim = await _until(admin, f"{_CLAIMS}/{name}", lambda found: found["status"]["phase"] == "Bound")
    return await admin.get(f"{_VOLUMES}/{claim['spec']['volumeName']}")


async def test_a_claim_without_a_class_is_bound_to_a_folder_that_only_we_can_read(
    client: Client, admin: RawClient, tmp_path: Path
) -> None:
    async with _serving(client, tmp_path):
        await _until(admin, "/apis/storage.k8s.io/v1/storageclasses", lambda found: found["items"])
        await _claim(admin, "models")
        volume = await _bound(admin, "models")
        folder = Path(volume["spec"]["hostPath"]["path"])
        assert folder.parent == tmp_path / "volumes"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert volume["spec"]["capacity"] == {"storage": "10Gi"}
        assert volume["spec"]["accessModes"] == ["ReadWriteMany"]
        await admin.delete(f"{_CLAIMS}/models")


async def test_the_folder_goes_away_with_its_claim(client: Client, admin: RawClient, tmp_path: Path) -> None:
    async with _serving(client, tmp_path):
        await _claim(admin, "brief", storageClassName="standard")
        volume = await _bound(admin, "brief")
        folder = Path(volume["spec"]["hostPath"]["path"])
        (folder / "deep").mkdir()
        (folder / "deep" / "weights").write_bytes(b"x")
        await admin.delete(f"{_CLAIMS}/brief")
        await _until_gone(admin, f"{_VOLUMES}/{volume['metadata']['name']}")
        assert not folder.exists()


async def test_what_happened_while_we_were_away_is_made_up_for(
    client: Client, admin: RawClient, tmp_path: Path
) -> None:
    async with _serving(client, tmp_path):
        await _claim(admin, "left", storageClassName="standard")
        left = await _bound(admin, "left")
    await admin.delete(f"{_CLAIMS}/left")
    await _claim(admin, "new", storageClassName="standard")
    name = left["metadata"]["name"]
    await _until(admin, f"{_VOLUMES}/{name}", lambda found: found["status"]["phase"] == "Released")
    async with _serving(client, tmp_path):
        await _bound(admin, "new")
        await _until_gone(admin, f"{_VOLUMES}/{name}")
        assert not Path(left["spec"]["hostPath"]["path"]).exists()
        await admin.delete(f"{_CLAIMS}/new")


async def test_a_class_that_retains_keeps_the_folder(client: Client, admin: RawClient, tmp_path: Path) -> None:
    kept = {"metadata": {"name": "kept"}, "provisioner": PROVISIONER, "reclaimPolicy": "Retain"}
    await admin.create("/apis/storage.k8s.io/v1/storageclasses", kept)
    async with _serving(client, tmp_path):
        for name, storage_class in (("precious", "kept"), ("brief", "standard")):
            await _claim(admin, name, storageClassName=storage_class)
        precious, brief = await _bound(admin, "precious"), await _bound(admin, "brief")
        folder = Path(precious["spec"]["hostPath"]["path"])
        for name in ("precious", "brief"):
            await admin.delete(f"{_CLAIMS}/{name}")
        path = f"{_VOLUMES}/{precious['metadata']['name']}"
        await _until(admin, path, lambda found: found["status"]["phase"] == "Released")
        await _until_gone(admin, f"{_VOLUMES}/{brief['metadata']['name']}")
        assert folder.exists()
        await admin.delete(path)


async def test_the_path_that_a_volume_names_is_never_removed(client: Client, admin: RawClient, tmp_path: Path) -> None:
    precious = tmp_path / "home"
    precious.mkdir()
    volume = {
        "metadata": {"name": "trap", "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "standard",
            "hostPath": {"path": str(precious)},
            "claimRef": {"namespace": "default", "name": "nobody", "uid": "00000000-0000-0000-0000-000000000000"},
        },
    }
    async with _serving(client, tmp_path / "state"):
        await admin.create(_VOLUMES, volume)
        await _until_gone(admin, f"{_VOLUMES}/trap")
        assert precious.exists()
