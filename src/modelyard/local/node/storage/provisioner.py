"""The volume provisioner of this node: a folder of this machine for each PersistentVolumeClaim.

`up.machine` runs it beside the node. A claim of its storage class gets a PersistentVolume in `<state>/volumes/`, and
the volume controller binds the two. When the claim is gone and the reclaim policy is Delete, the folder is removed and
then the PersistentVolume. The size of a claim is not enforced, because a folder has none. Claims for a block device are
not served.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from modelyard.core.resources import VOLUME_CLAIM, Key, Resource
from modelyard.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from modelyard.kube.watch import Target, follow
from modelyard.local.files import private_folder
from modelyard.local.retry import pause
from modelyard.local.storage_class import STORAGE_CLASS, standard_class
from modelyard.local.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.core.objects import Json, Stored
    from modelyard.kube.client import Client

PROVISIONER: Final = "modelyard.dev/folders"
PERSISTENT_VOLUME: Final = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)

# The volume controller puts this on a claim that waits for a provisioner.
_ASKED: Final = "volume.kubernetes.io/storage-provisioner"
_MADE_BY: Final = "pv.kubernetes.io/provisioned-by"
_TRY_AGAIN_SECONDS: Final = 5.0
_log = structlog.get_logger()

Step = Callable[[], Awaitable[None]]
"""One change that is due."""


class VolumeProvisioner:
    """Makes and removes the folders of claims. It keeps no memory: what is due follows from claims and volumes."""

    def __init__(self, client: Client, state: Path) -> None:
        self._client = client
        self._state = state
        self._changed = asyncio.Event()
        self._claims = Store(self._changed.set)
        self._volumes = Store(self._changed.set)
        self._is_installed = False

    async def run(self) -> NoReturn:
        """Create the default StorageClass `standard` if it is missing, and serve claims until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(follow(self._client, Target(VOLUME_CLAIM), self._claims))
            group.create_task(follow(self._client, Target(PERSISTENT_VOLUME), self._volumes))
            await self._sync_forever()

    async def _sync_forever(self) -> NoReturn:
        while True:
            # Before the steps: cleared after them, a claim that comes meanwhile would wait for the next change.
            self._changed.clear()
            done = [await self._try(step) for step in self._steps()]
            await pause(None if all(done) else _TRY_AGAIN_SECONDS, until=self._changed)

    def _steps(self) -> list[Step]:
        install = [] if self._is_installed else [self._install]
        waiting = [item for item in self._claims.items.values() if self._needs_volume(item)]
        reclaimable = [item for item in self._volumes.items.values() if _is_reclaimable(item)]
        return [
            *install,
            *(partial(self._provision, item) for item in waiting),
            *(partial(self._reclaim, item) for item in reclaimable),
        ]

    async def _try(self, step: Step) -> bool:
        try:
            await step()
        except (KubeError, OSError) as error:
            _log.warning("a claim cannot be served", error=str(error))
            return False
        return True

    async def _install(self) -> None:
        with suppress(AlreadyExists):
            await self._client.create(STORAGE_CLASS, standard_class(PROVISIONER))
        self._is_installed = True

    def _needs_volume(self, claim: Stored) -> bool:
        if claim.meta.deleting or claim.meta.annotation(_ASKED) != PROVISIONER:
            return False
        spec = claim.spec
        is_new = not spec.get("volumeName") and _volume_key(claim) not in self._volumes.items
        return is_new and spec.get("volumeMode") != "Block"

    async def _provision(self, claim: Stored) -> None:
        name = claim.spec["storageClassName"]
        policy = (await self._client.get(STORAGE_CLASS, Key("", name))).part("reclaimPolicy")
        folder = private_folder(volume_folder(self._state, _volume_key(claim).name))
        with suppress(AlreadyExists):
            made = await self._client.create(PERSISTENT_VOLUME, _volume(claim, folder, policy))
            # At once: the watch may tell of it only after the next look at the claim.
            self._volumes.upsert(made)

    async def _reclaim(self, volume: Stored) -> None:
        folder = volume_folder(self._state, volume.meta.name)
        # The folder first: after a crash in between, the volume still says that it is to be reclaimed.
        if folder.exists():
            await asyncio.to_thread(shutil.rmtree, folder)
        with suppress(NotFound, Conflict):
            await self._client.delete(PERSISTENT_VOLUME, volume.meta.key, volume.meta.uid)


def is_ours(volume: Stored) -> bool:
    """Whether a PersistentVolume was made by this provisioner, and not by a user for a folder of their own."""
    return volume.meta.annotation(_MADE_BY) == PROVISIONER


def volume_folder(state: Path, name: str) -> Path:
    """Return the folder of a PersistentVolume of this provisioner. The path in the object is not used.

    A user who may write volumes could name any folder there, and the state folder may have been moved since.
    """
    return state / "volumes" / name


def _volume_key(claim: Stored) -> Key:
    return Key("", f"pvc-{claim.meta.uid}")


def _is_reclaimable(volume: Stored) -> bool:
    """Whether the claim of a volume of this provisioner is gone and its reclaim policy is Delete."""
    released = volume.status.get("phase") == "Released" and not volume.meta.deleting
    return is_ours(volume) and released and volume.spec.get("persistentVolumeReclaimPolicy") == "Delete"


def _volume(claim: Stored, folder: Path, policy: str) -> Json:
    spec = claim.spec
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": _volume_key(claim).name, "annotations": {_MADE_BY: PROVISIONER}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": policy,
            "hostPath": {"path": str(folder)},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.meta.namespace,
                "name": claim.meta.name,
                "uid": claim.meta.uid,
            },
        },
    }
