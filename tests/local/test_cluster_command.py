"""`make cluster` gives a developer a cluster until Ctrl-C, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest


async def _command(**environment: str) -> asyncio.subprocess.Process:
    kept = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "modelyard.local.cluster"),
        stdout=asyncio.subprocess.PIPE,
        env={**kept, **environment},
    )


@pytest.mark.parametrize("reason", [signal.SIGINT, signal.SIGTERM])
async def test_it_prints_a_kubeconfig_and_cleans_up_when_asked_to_stop(assets: Path, reason: signal.Signals) -> None:
    command = await _command(KUBEBUILDER_ASSETS=str(assets))
    assert command.stdout is not None
    async with asyncio.timeout(60):
        first = (await command.stdout.readline()).decode()
        name, _, kubeconfig = first.strip().removeprefix("export ").partition("=")
        assert (name, Path(kubeconfig).exists()) == ("KUBECONFIG", True)
        assert str(assets) in (await command.stdout.readline()).decode()
        await command.stdout.readline()
        command.send_signal(reason)
        await command.communicate()
    assert command.returncode == 0
    assert not Path(kubeconfig).parents[1].exists()


async def test_without_programs_it_says_how_to_get_them() -> None:
    command = await _command()
    output, _ = await command.communicate()
    assert command.returncode == 2
    assert b"make cluster" in output


async def test_a_folder_without_programs_is_a_clear_error(tmp_path: Path) -> None:
    command = await _command(KUBEBUILDER_ASSETS=str(tmp_path))
    output, _ = await command.communicate()
    assert command.returncode == 1
    assert b"The cluster did not start: " in output
