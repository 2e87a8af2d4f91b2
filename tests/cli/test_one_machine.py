"""The verbs for clusters beside a `modelyard up` of the same user."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from modelyard.cli.one_machine import local_services
from modelyard.core.resources import Key
from modelyard.local.node.proxy.addresses import HostPort
from modelyard.local.up.state_folder import StateFolder
from tests.cli.running import invoke, run

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Path) -> StateFolder:
    """The usual folder of this user, with the kubeconfig of a machine that does not answer."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = StateFolder(tmp_path / "modelyard")
    folder.prepare()
    # As the control plane makes it: a link to one of several.
    folder.kubeconfig.symlink_to(elsewhere)
    return folder


@pytest.fixture
def running(machine: StateFolder) -> Iterator[StateFolder]:
    """The same while it is up."""
    with machine.held():
        yield machine


async def test_where_nothing_names_a_cluster_the_machine_that_runs_is_meant(scene: Path, running: StateFolder) -> None:
    running.kubeconfig.unlink()
    running.kubeconfig.symlink_to(scene)
    ran = await run("get", "models", "-n", "team", kubeconfig=None)
    assert (ran.code, ran.err) == (0, "")
    assert "tiny" in ran.out


@pytest.mark.parametrize("verb", ["get", "page"])
def test_a_machine_that_does_not_run_is_no_cluster(machine: StateFolder, verb: str) -> None:
    ran = invoke(verb, kubeconfig=None)
    assert ran.code == 4
    assert "KUBECONFIG is not set" in ran.err
    assert str(machine.path) not in ran.err


def test_a_cluster_that_is_named_is_meant_even_if_it_does_not_answer(running: StateFolder, elsewhere: Path) -> None:
    ran = invoke("get", kubeconfig=elsewhere)
    assert ran.code == 4
    assert ran.err.endswith(f"; a `modelyard up` runs on this machine, with the kubeconfig {running.kubeconfig}\n")


def test_its_services_are_found_where_they_listen_by_any_spelling_of_its_kubeconfig(
    machine: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Key("default", "yard")
    machine.write_service_addresses({service: {8080: HostPort("127.96.0.5", 8080)}})
    monkeypatch.chdir(machine.path)
    for named in (machine.kubeconfig, Path("kubeconfig")):
        assert local_services(named)(service, 8080) == "127.96.0.5:8080"
    monkeypatch.setenv("KUBECONFIG", str(machine.kubeconfig))
    assert local_services()(service, 8080) == "127.96.0.5:8080"
    assert local_services(machine.kubeconfig.readlink())(service, 8080) == "", "another file is another cluster"


def test_of_a_machine_that_was_stopped_the_way_to_start_it_is_told(machine: StateFolder) -> None:
    ran = invoke("get", kubeconfig=machine.kubeconfig)
    assert ran.code == 4
    assert ran.err.endswith(f"; nothing runs in {machine.path}; start it with `modelyard up`\n")


def test_a_machine_that_runs_and_does_not_answer_is_not_offered(running: StateFolder) -> None:
    ran = invoke("get", kubeconfig=running.kubeconfig)
    assert ran.code == 4
    assert "modelyard up" not in ran.err


def test_a_machine_whose_disk_is_full_is_told_as_that(running: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage(running.path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    ran = invoke("get", kubeconfig=None)
    assert (ran.code, ran.err.endswith(f"; the disk that holds {running.path} is full; free 1 GB or more\n")) == (
        4,
        True,
    )
    ran = invoke("status", "--dir", str(running.path), kubeconfig=None)
    assert (ran.code, ran.err.startswith(f"the disk that holds {running.path} is full; free 1 GB or more")) == (1, True)
