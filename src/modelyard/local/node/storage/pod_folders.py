"""The folders of pods in the state folder: `pods/<uid>/volumes/<name>` and `pods/<uid>/containers/<name>/`.

The layout is that of `/var/lib/kubelet/pods`, with the files of a container beside its volumes. Workers, reaper and
server use it. Only the user who runs the node can read anything in it.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from modelyard.local.files import private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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

    def volume(self, name: str) -> Path:
        """Return the folder of a volume that is removed with the pod, such as an emptyDir."""
        return self.folder / "volumes" / name

    def container(self, name: str) -> ContainerFolder:
        """Return the files of a container."""
        return ContainerFolder(self.folder / "containers" / name)

    def make(self) -> None:
        """Create the folders of the pod that are missing."""
        for each in (self.folder, self.folder / "volumes", self.folder / "containers"):
            private_folder(each)

    def remove(self) -> None:
        """Remove the folder of the pod, with logs and records. Files that cannot be removed are left."""
        shutil.rmtree(self.folder, ignore_errors=True)


def pods_folder(state: Path) -> Path:
    """Return the folder that holds the folders of all pods."""
    return state / "pods"


def pod_uids(state: Path) -> Iterator[str]:
    """Yield the UIDs of all pods that have a folder, those of deleted pods included."""
    folder = pods_folder(state)
    return (each.name for each in folder.iterdir()) if folder.is_dir() else iter(())


def container_folders(state: Path) -> Iterator[ContainerFolder]:
    """Yield the folders of all containers of all pods."""
    return (ContainerFolder(each) for each in pods_folder(state).glob("*/containers/*") if each.is_dir())
