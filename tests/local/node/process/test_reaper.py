"""What the reaper finds by records alone, as it must on macOS, where no process can be found by its variables."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from modelyard.local.node.process import procfs
from modelyard.local.node.process.container_record import ContainerRecord, write_record
from modelyard.local.node.process.reaper import reap
from modelyard.local.node.storage.pod_folders import ContainerFolder, PodFolder, engines_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def of_a_pod(state: Path) -> ContainerFolder:
    return PodFolder(state, "uid").container("main")


def of_an_engine(state: Path) -> ContainerFolder:
    return ContainerFolder(engines_folder(state) / "model")


@pytest.mark.parametrize("folder_of", [of_a_pod, of_an_engine])
async def test_a_process_is_ended_by_its_record(tmp_path: Path, folder_of: Callable[[Path], ContainerFolder]) -> None:
    folder = folder_of(tmp_path)
    folder.make()
    process = await asyncio.create_subprocess_exec("sleep", "3600", start_new_session=True)
    record = ContainerRecord(pid=process.pid, birth=procfs.birth(process.pid), folder=str(folder.folder))
    write_record(folder.record, record)
    await asyncio.to_thread(reap, tmp_path)
    assert await process.wait() == -9
