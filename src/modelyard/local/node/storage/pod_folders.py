"""The folders of pods in the state folder: `pods/<uid>/volumes/<name>` and `pods/<uid>/containers/<name>/`.

The layout is that of `/var/lib/kubelet/pods`, with the files of a container beside its volumes. Workers, reaper and
server use it. Only the user who runs the node can read anything in it. Of pods that are deleted, the logs of the last
few are kept in `ended/<uid>/`, for `modelyard logs`; a cluster has log collectors for that.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.local.files import private_folder, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME_FILE: Final = "pod.json"
_MOST_ENDED: Final = 20


class PodName(Struct, frozen=True):
    """What a folder tells of its pod when there is no API server to ask."""

    namespace: str
    name: str
    instance: str
    """The object that the pod is of, by its label `app.kubernetes.io/instance`; empty: none."""


class ContainerFolder:
    """The files of one container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        """The output of the running process, or of the last one."""
        self.previous_log = folder / "log.previous"
        self.termination = folder / "termination"
        """The termination message, if the process writes one."""
        self.record = folder / "state.json"
        self.work = folder / "work"
        """The working directory of the process, unless the pod spec names one in a volume."""

    def make(self) -> None:
        """Create the folders of the container that are missing."""
        private_folder(self.folder)
        private_folder(self.work)


class PodFolder:
    """The files of one pod."""

    def __init__(self, state: Path, uid: str) -> None:
        self.state = state
        self.folder = pods_folder(state) / uid
        self._ended = ended_folder(state) / uid

    def volume(self, name: str) -> Path:
        """Return the folder of a volume that is removed with the pod, such as an emptyDir."""
        return self.folder / "volumes" / name

    def container(self, name: str) -> ContainerFolder:
        """Return the files of a container."""
        return ContainerFolder(self.folder / "containers" / name)

    def containers(self) -> list[ContainerFolder]:
        """Return the files of all containers that have a folder, by name."""
        folder = self.folder / "containers"
        return [ContainerFolder(each) for each in sorted(folder.iterdir())] if folder.is_dir() else []

    def make(self, pod: PodName) -> None:
        """Create the folders of the pod that are missing, and write which pod they are of."""
        for each in (self.folder, self.folder / "volumes", self.folder / "containers"):
            private_folder(each)
        # On a full disk a pod may still run; only `modelyard logs` does not find it once it has ended.
        with suppress(OSError):
            write_private(self.folder / _NAME_FILE, msgspec.json.encode(pod))

    def remove(self) -> None:
        """Remove the folder of the pod. Its logs are kept until those of enough later pods are."""
        shutil.rmtree(self.folder / "volumes", ignore_errors=True)
        for container in (self.folder / "containers").glob("*"):
            shutil.rmtree(ContainerFolder(container).work, ignore_errors=True)
        # On a full disk or the like the logs are lost: a pod that is gone must leave no folder among those of pods.
        with suppress(OSError):
            private_folder(self._ended.parent)
            self.folder.replace(self._ended)
            _forget_oldest(self._ended.parent)
        shutil.rmtree(self.folder, ignore_errors=True)


def pods_folder(state: Path) -> Path:
    """Return the folder that holds the folders of all pods."""
    return state / "pods"


def ended_folder(state: Path) -> Path:
    """Return the folder that holds the logs of pods that are deleted."""
    return state / "ended"


def read_pod_name(folder: Path) -> PodName | None:
    """Return which pod a folder is of; None: it does not say, or not readably."""
    try:
        return msgspec.json.decode((folder / _NAME_FILE).read_bytes(), type=PodName)
    except (OSError, msgspec.MsgspecError):
        return None


def _forget_oldest(ended: Path) -> None:
    kept = sorted(ended.iterdir(), key=lambda folder: folder.stat().st_mtime)
    for folder in kept[:-_MOST_ENDED]:
        shutil.rmtree(folder, ignore_errors=True)


def pod_uids(state: Path) -> Iterator[str]:
    """Yield the UIDs of all pods that have a folder, those of deleted pods included."""
    folder = pods_folder(state)
    return (each.name for each in folder.iterdir()) if folder.is_dir() else iter(())


def engines_folder(state: Path) -> Path:
    """Return the folder that holds the folders of the engines of a host daemon, which has no pods."""
    return state / "engines"


def container_folders(state: Path) -> Iterator[ContainerFolder]:
    """Yield the folders of all containers of all pods, and of all engines."""
    found = chain(pods_folder(state).glob("*/containers/*"), engines_folder(state).glob("*"))
    return (ContainerFolder(each) for each in found if each.is_dir())
