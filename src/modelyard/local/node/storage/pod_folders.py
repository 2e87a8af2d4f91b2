"""Where the node keeps what belongs to pods: `<state>/pods/<uid>/volumes/<name>` and `.../containers/<name>/`.

Everything is readable by us only.
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
        """What the running, or last, process has written."""
        self.previous_log = folder / "log.previous"
        self.termination = folder / "termination"
        """What the process wants to be remembered for."""
        self.record = folder / "state.json"
        self.work = folder / "work"
        """Where the process starts, unless its working folder is in a volume."""

    def make(self) -> None:
        """Create what is missing."""
        private_folder(self.folder)
        private_folder(self.work)


class PodFolder:
    """The files of one pod."""

    def __init__(self, state: Path, uid: str) -> None:
        self.state = state
        self.folder = pods_folder(state) / uid

    def volume(self, name: str) -> Path:
        """Return the folder of a volume that lives and dies with the pod."""
        return self.folder / "volumes" / name

    def container(self, name: str) -> ContainerFolder:
        """Return the files of a container."""
        return ContainerFolder(self.folder / "containers" / name)

    def make(self) -> None:
        """Create what is missing."""
        for each in (self.folder, self.folder / "volumes", self.folder / "containers"):
            private_folder(each)

    def remove(self) -> None:
        """Remove everything of the pod."""
        shutil.rmtree(self.folder, ignore_errors=True)


def pods_folder(state: Path) -> Path:
    """Return the folder of all pods."""
    return state / "pods"


def pod_uids(state: Path) -> Iterator[str]:
    """Name the pods that have left files behind."""
    folder = pods_folder(state)
    return (each.name for each in folder.iterdir()) if folder.is_dir() else iter(())


def container_folders(state: Path) -> Iterator[ContainerFolder]:
    """Return the files of all containers of all pods."""
    return (ContainerFolder(each) for each in pods_folder(state).glob("*/containers/*") if each.is_dir())
