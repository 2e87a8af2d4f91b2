"""The logs of containers that have ended: of earlier runs, of deleted pods, and of a machine that is stopped.

`commands` shows them. They are read from the state folder, because an API server forgets a pod with its deletion.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core import names
from modelyard.core.times import timestamp
from modelyard.local.node.server.log_rotation import first_kept_byte
from modelyard.local.node.storage.pod_folders import ContainerFolder, ended_folder, pods_folder, read_pod_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_PIECE: Final = 1 << 16


class EndedLog(Struct, frozen=True):
    """The log of one run of a container."""

    title: str
    file: Path

    @property
    def until(self) -> str:
        """When the last line was written. When the others were is known only while the machine runs."""
        return timestamp(datetime.fromtimestamp(self.file.stat().st_mtime, UTC))


def find_ended_logs(state: Path, namespace: str, name: str, *, is_running: bool) -> list[EndedLog]:
    """Return the logs of what has ended of an object, oldest first. Of a machine that is stopped, all has ended."""
    ended, live = sorted(_folders(ended_folder(state))), sorted(_folders(pods_folder(state)))
    found = [
        log
        for is_over, folders in ((True, ended), (not is_running, live))
        for _, folder in folders
        for log in _of_pod(folder, namespace, name, is_over=is_over)
    ]
    return [log for log in found if log.file.exists() and log.file.stat().st_size]


def _folders(parent: Path) -> Iterator[tuple[float, Path]]:
    for folder in parent.iterdir() if parent.is_dir() else ():
        yield folder.stat().st_mtime, folder


def _of_pod(folder: Path, namespace: str, name: str, *, is_over: bool) -> Iterator[EndedLog]:
    pod = read_pod_name(folder)
    if pod is None or (pod.namespace, pod.instance) != (namespace, names.short(name)):
        return
    for container in sorted((folder / "containers").glob("*")):
        files, title = ContainerFolder(container), f"pod/{pod.name}/{container.name}"
        yield EndedLog(f"{title}, the run before", files.previous_log)
        if is_over:
            yield EndedLog(title, files.log)


def write_logs(logs: list[EndedLog], output: BinaryIO) -> None:
    """Write logs one after the other, each below its title and the time of its last line."""
    for log in logs:
        output.write(f"==> {log.title}, until {log.until} <==\n".encode())
        with log.file.open("rb") as stream:
            stream.seek(first_kept_byte(stream.fileno()))
            while piece := stream.read(_PIECE):
                output.write(piece)
