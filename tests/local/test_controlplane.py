"""The control plane starts fast, keeps its data, guards itself, and never outlives us."""

from __future__ import annotations

import asyncio
import json
import ssl
import stat
import sys
import time
from base64 import b64decode
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml

from modelyard.local.command_lines import NODE_CALLER
from modelyard.local.controlplane import ControlPlane, NoDatabase
from modelyard.local.program import ProcessDied
from modelyard.local.raw_client import RawClient, RawClientError
from tests.support.accounts import until_allowed
from tests.support.audit import answered, audited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl

_SECONDS = 90.0
_PARENT = """
import asyncio, json, sys
from pathlib import Path
from modelyard.local.controlplane import ControlPlane

async def main():
    controlplane = ControlPlane(Path(sys.argv[1]), Path(sys.argv[2]), durable=False)
    await controlplane.start()
    print(json.dumps(controlplane.pids), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def _running(controlplane: ControlPlane) -> AsyncIterator[ControlPlane]:
    await controlplane.start()
    try:
        yield controlplane
    finally:
        await controlplane.stop()


def _scripts(folder: Path, programs: dict[str, str]) -> None:
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)


def _bare(folder: Path, assets: Path, **options: Any) -> ControlPlane:
    return ControlPlane(folder, assets, workloads=False, durable=False, **options)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def _until_gone(pids: dict[str, int]) -> None:
    async with asyncio.timeout(_SECONDS):
        while any(map(_is_alive, pids.values())):
            await asyncio.sleep(0.05)


async def test_it_is_ready_within_seconds(tmp_path: Path, assets: Path) -> None:
    began = time.monotonic()
    async with _running(ControlPlane(tmp_path, assets, durable=False)) as controlplane:
        assert time.monotonic() - began < 60
        assert sorted(controlplane.pids) == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
        pids = controlplane.pids
    assert controlplane.pids == {}
    await _until_gone(pids)


async def test_nothing_is_left_when_the_parent_is_killed(tmp_path: Path, assets: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PARENT, tmp_path, assets, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    async with asyncio.timeout(2 * _SECONDS):
        pids: dict[str, int] = json.loads(await parent.stdout.readline())
    assert all(map(_is_alive, pids.values()))
    parent.kill()
    await parent.wait()
    await _until_gone(pids)


async def test_after_a_crash_and_at_a_second_start_it_goes_on_with_the_same_data_and_ports(
    tmp_path: Path, assets: Path
) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    async with _running(_bare(tmp_path, assets)) as first:
        created = await first.admin.create(path, {"metadata": {"name": "kept"}})
        authority, before = first.ca.read_bytes(), first.pids
        await first.kill_apiserver()
        assert not await first.admin.answers("/readyz")
        await first.restart_apiserver()
        assert await first.admin.get(f"{path}/kept") == created
        after = first.pids
        assert (before["etcd"] == after["etcd"], before["kube-apiserver"] == after["kube-apiserver"]) == (True, False)
    async with _running(_bare(tmp_path, assets)) as second:
        assert await second.admin.get(f"{path}/kept") == created
        assert (second.url, second.ca.read_bytes()) == (first.url, authority)


async def test_a_program_that_dies_says_why_and_takes_the_others_along(tmp_path: Path, assets: Path) -> None:
    controlplane = _bare(tmp_path, assets, apiserver_flags=("--no-such-flag",))
    with pytest.raises(ProcessDied, match=r"kube-apiserver ended with code 1[\s\S]*no-such-flag"):
        await controlplane.start()
    assert controlplane.pids == {}


async def test_a_first_start_that_was_killed_leaves_nothing_that_holds_up_the_next(
    tmp_path: Path, assets: Path
) -> None:
    journal = tmp_path / "state" / "etcd" / "member" / "wal" / f"{0:016}-{0:016}.wal"
    _scripts(tmp_path, {"etcd": f"mkdir -p {journal.parent}; echo begun > {journal}", "kube-apiserver": "exit 1"})
    with pytest.raises(ProcessDied):
        await _bare(tmp_path / "state", tmp_path).start()
    assert journal.exists()
    async with _running(_bare(tmp_path / "state", assets)) as second:
        assert await second.admin.answers("/readyz")


async def test_a_database_that_never_answers_is_one_line_with_the_way_out(tmp_path: Path) -> None:
    _scripts(tmp_path, {"etcd": "exec sleep 600", "kube-apiserver": "echo error creating storage factory; exit 1"})
    with pytest.raises(NoDatabase, match=r"state/etcd does not answer; start again, .* remove .*/state, and apply"):
        await _bare(tmp_path / "state", tmp_path).start()


async def test_the_audit_log_names_who_wrote_what(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    controlplane = cluster.controlplane
    kubeconfig = await controlplane.service_account_kubeconfig(namespace, "default")
    await kubectl(
        "create", "rolebinding", "edits", "--clusterrole=edit", f"--serviceaccount={namespace}:default", "-n", namespace
    )
    user = f"system:serviceaccount:{namespace}:default"
    await until_allowed(controlplane, user, {"namespace": namespace, "verb": "create", "resource": "configmaps"})
    run = await asyncio.create_subprocess_exec(
        *(controlplane.kubectl, f"--kubeconfig={kubeconfig}", "create", "configmap", "audited"),
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await run.wait() == 0
    async with asyncio.timeout(_SECONDS):
        while not (written := list(answered(controlplane.audit_log, user, namespace))):
            await asyncio.sleep(0.05)
    told = [(entry["verb"], entry["objectRef"]["name"], entry["responseStatus"]["code"]) for entry in written]
    assert told == [("create", "audited", 201)]


async def test_the_audit_log_holds_writes_only_and_no_administrator_but_us(cluster: Cluster, namespace: str) -> None:
    entries = list(audited(cluster.controlplane.audit_log))
    assert {entry["verb"] for entry in entries} <= {"create", "update", "patch", "delete", "deletecollection"}
    users = {entry["user"]["username"] for entry in entries if "system:masters" in entry["user"].get("groups", [])}
    assert users <= {"admin", "simulated-nodes", "system:apiserver"}


async def test_a_client_certificate_makes_a_user_with_groups(cluster: Cluster) -> None:
    kubeconfig = cluster.controlplane.client_kubeconfig("someone", ("friends",))
    run = await asyncio.create_subprocess_exec(
        *(cluster.controlplane.kubectl, f"--kubeconfig={kubeconfig}", "auth", "whoami", "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await run.communicate()
    user = json.loads(output)["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("someone", ["friends", "system:authenticated"])


async def test_strangers_get_nothing_from_the_api_server(cluster: Cluster) -> None:
    trust = ssl.create_default_context(cafile=str(cluster.controlplane.ca))
    async with aiohttp.ClientSession(cluster.controlplane.url) as session:
        for path in ("/api/v1/namespaces", "/readyz", "/version"):
            async with session.get(path, ssl=trust) as response:
                assert response.status == 401


async def test_a_certificate_of_the_api_does_not_open_the_database(cluster: Cluster) -> None:
    pki = cluster.controlplane.folder / "pki"
    ports = json.loads((cluster.controlplane.folder / "ports.json").read_text())
    for port in (ports["etcd"], ports["etcd-http"]):
        assert await _greeting(port, pki, pki / "etcd" / "etcd")
        assert not await _greeting(port, pki, pki / NODE_CALLER)


async def _greeting(port: int, pki: Path, identity: Path) -> bytes:
    """Return the first that etcd says to the owner of a certificate; empty: it hangs up."""
    context = ssl.create_default_context(cafile=str(pki / "etcd" / "ca.crt"))
    context.load_cert_chain(identity.with_suffix(".crt"), identity.with_suffix(".key"))
    # With HTTP/2, servers speak first.
    context.set_alpn_protocols(["h2"])
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        said = await reader.read(1)
        writer.close()
    except OSError:
        return b""
    return said


async def test_everything_listens_on_loopback_only(cluster: Cluster) -> None:
    listening = {address for pid in cluster.controlplane.pids.values() for address in _listening(pid)}
    assert listening
    assert {address for address in listening if not address.startswith("127.")} == set()


def _listening(pid: int) -> set[str]:
    """Return the addresses on which a process listens, read from the kernel."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(str(link.readlink()))
    found = set()
    for table, width in (("tcp", 8), ("tcp6", 32)):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[index] for index in (1, 3, 9))
            if state == "0A" and f"socket:[{inode}]" in sockets:
                number = bytes.fromhex(local[:width])
                found.add(".".join(map(str, reversed(number))) if width == 8 else number.hex())
    return found


async def test_nobody_else_can_read_what_it_writes(cluster: Cluster) -> None:
    folder = cluster.controlplane.folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    secrets = [*folder.glob("pki/**/*.key"), *folder.glob("kubeconfigs/*")]
    assert len(secrets) > 5
    assert {stat.S_IMODE(file.stat().st_mode) for file in secrets} == {0o600}


async def test_an_unknown_service_account_is_a_clear_error(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(RawClientError, match='404 serviceaccounts "nobody" not found'):
        await cluster.controlplane.service_account_kubeconfig(namespace, "nobody")


async def test_a_call_without_a_server_is_a_clear_error(cluster: Cluster, tmp_path: Path) -> None:
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(cluster.kubeconfig.read_text().replace(cluster.controlplane.url, "https://127.0.0.1:1"))
    admin = RawClient(nowhere)
    with pytest.raises(RawClientError, match="GET /x: no answer"):
        await admin.get("/x")
    await admin.close()


async def test_a_kubeconfig_holds_everything_inside(cluster: Cluster) -> None:
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    authority = b64decode(content["clusters"][0]["cluster"]["certificate-authority-data"])
    assert authority == cluster.controlplane.ca.read_bytes()
    assert set(content["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
