"""What a container does when the machine lets it down."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import aiohttp

from modelyard.local.node.pods.container_worker import ContainerCallbacks, ContainerWorker
from modelyard.local.node.pods.launch import Prepared
from modelyard.local.node.pods.probes import ContainerAccess
from modelyard.local.node.podspec import Container
from modelyard.local.node.process.container_state import Terminated
from modelyard.local.node.process.process import Launch
from modelyard.local.node.storage.pod_folders import PodFolder
from tests.local.node.yard import runs

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_process_that_cannot_be_remembered_does_not_run_on(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path, "uid").container("main")
    folder.make()
    # As on a full disk: the process starts, and its record cannot be written.
    (folder.record / "in the way").mkdir(parents=True)
    script = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    async with aiohttp.ClientSession() as session:
        access = ContainerAccess(session, "127.0.0.1", None, (), {}, str(tmp_path), str)
        prepared = Prepared(Launch((sys.executable, "-c", script), {}, str(tmp_path)), access)
        worker = ContainerWorker(
            Container("main"), "Always", lambda: _ready(prepared), folder, 1, ContainerCallbacks(lambda: None, print)
        )
        async with asyncio.timeout(60):
            ended = await worker._run_process(prepared)
    assert isinstance(ended, Terminated)
    assert (ended.reason, "cannot be started" in ended.message) == ("StartError", True)
    assert not (tmp_path / "pid").exists() or not runs((tmp_path / "pid").read_text() or "0")


async def _ready(prepared: Prepared) -> Prepared:
    return prepared
