"""How an identity is kept current: files that change, plugins that are run, secrets that stay secret."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from modelyard.kube.config import from_kubeconfig
from modelyard.kube.credentials import REREAD_AFTER, CredentialFiles, Identity, RenewedCredentials
from modelyard.kube.errors import NoCredentials
from modelyard.kube.exec_plugin import Command, ExecPlugin
from modelyard.kube.kubeconfig import User
from modelyard.local.pki import Authority

if TYPE_CHECKING:
    from pathlib import Path

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_secrets_do_not_show() -> None:
    hidden = Identity("s3cret", b"s3cret", b"s3cret")
    assert "s3cret" not in f"{hidden} {hidden!r} {hidden.__rich_repr__()} {User(token='s3cret')!r}"


async def test_a_replaced_token_file_is_noticed(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text("one\n")
    credentials = RenewedCredentials(CredentialFiles(token=file).fetch, clock)
    assert (await credentials.current()).token == "one"
    file.write_text("two\n")
    assert (await credentials.current()).token == "one"
    clock.now += REREAD_AFTER
    assert (await credentials.current()).token == "two"
    assert REREAD_AFTER <= 60


async def test_a_rejected_token_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = RenewedCredentials(CredentialFiles(token=file).fetch, Clock())
    old = await credentials.current()
    file.write_text("two")
    credentials.rejected(old)
    assert (await credentials.current()).token == "two"


async def test_a_file_that_is_missing_for_a_moment_does_no_harm(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text("one")
    credentials = RenewedCredentials(CredentialFiles(token=file).fetch, clock)
    held = await credentials.current()
    file.unlink()
    clock.now += REREAD_AFTER
    assert await credentials.current() == held
    credentials.rejected(held)
    with pytest.raises(NoCredentials, match="token"):
        await credentials.current()


async def test_many_that_are_rejected_together_renew_once() -> None:
    fetched = 0

    async def fetch() -> tuple[Identity, float]:
        nonlocal fetched
        fetched += 1
        await asyncio.sleep(0)
        return Identity(token=str(fetched)), 60.0

    credentials = RenewedCredentials(fetch)
    old = await credentials.current()

    async def again() -> str:
        credentials.rejected(old)
        return (await credentials.current()).token

    assert await asyncio.gather(*(again() for _ in range(50))) == ["2"] * 50
    assert fetched == 2


def plugin(script: str, api_version: str = V1, time_limit: float = 30.0, **more: Any) -> ExecPlugin:
    command = Command(api_version, sys.executable, ("-c", script), **more)
    return ExecPlugin(command, time_limit=time_limit)


def printing(api_version: str = V1, **status: Any) -> str:
    return f"print({json.dumps(json.dumps({'kind': 'ExecCredential', 'apiVersion': api_version, 'status': status}))})"


@pytest.mark.parametrize("api_version", [V1, V1BETA1])
async def test_a_plugin_prints_a_token(api_version: str) -> None:
    identity, seconds = await plugin(printing(api_version, token="t"), api_version).fetch()
    assert identity == Identity(token="t")
    assert seconds == float("inf")


async def test_a_plugin_prints_a_certificate() -> None:
    identity, _ = await plugin(printing(clientCertificateData="c", clientKeyData="k")).fetch()
    assert identity == Identity(certificate=b"c", key=b"k")


async def test_a_plugin_says_how_long_its_token_is_good() -> None:
    end = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    _, seconds = await plugin(printing(token="t", expirationTimestamp=end)).fetch()
    assert 3000 < seconds < 3600


async def test_an_expired_token_is_fetched_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    end = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    script = f"open({str(runs)!r}, 'a').write('x');" + printing(token="t", expirationTimestamp=end)
    credentials = RenewedCredentials(plugin(script).fetch)
    await credentials.current()
    await credentials.current()
    assert runs.read_text() == "xx"


async def test_a_token_without_an_end_is_kept_until_it_is_rejected(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    credentials = RenewedCredentials(plugin(f"open({str(runs)!r}, 'a').write('x');" + printing(token="t")).fetch)
    identity = await credentials.current()
    await credentials.current()
    assert runs.read_text() == "x"
    credentials.rejected(identity)
    await credentials.current()
    assert runs.read_text() == "xx"


@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        ("import sys; sys.exit('log in first')", "exit code 1: log in first"),
        ("raise SystemExit(3)", "exit code 3: it said nothing"),
        ("print('s3cret')", "not an ExecCredential"),
        (printing(V1BETA1, token="s3cret"), f"no ExecCredential of {V1}"),
        (printing(), "neither a token nor a certificate"),
        (printing(clientCertificateData="c"), "neither a token nor a certificate"),
    ],
)
async def test_a_plugin_that_fails_is_named_with_its_hint(script: str, wrong: str) -> None:
    with pytest.raises(NoCredentials) as caught:
        await plugin(script, install_hint="install it from example.com").fetch()
    message = str(caught.value)
    assert sys.executable in message
    assert wrong in message
    assert message.endswith("; install it from example.com")
    assert "s3cret" not in message


async def test_a_plugin_that_is_not_installed_is_named_with_its_hint() -> None:
    missing = ExecPlugin(Command(V1, "modelyard-no-such-plugin", install_hint="install it"))
    with pytest.raises(NoCredentials, match=r"'modelyard-no-such-plugin' cannot be started.*install it"):
        await missing.fetch()


async def test_a_plugin_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    hanging = ExecPlugin(Command(V1, "/bin/sh", ("-c", f"sleep 600 > {pipe} & wait")), time_limit=1.0)
    try:
        with pytest.raises(NoCredentials, match="did not finish within 1 s"):
            await hanging.fetch()
        async with asyncio.timeout(60):
            while not at_end(reader):
                await asyncio.sleep(0.01)
    finally:
        os.close(reader)


def at_end(reader: int) -> bool:
    """Whether nobody holds the other end of a pipe any more."""
    try:
        return os.read(reader, 1) == b""
    except BlockingIOError:
        return False


async def test_a_plugin_gets_its_arguments_and_variables_and_learns_of_the_cluster(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path / "pki", "test").certificate_file
    script = tmp_path / "bin" / "plugin"
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "cluster = info['spec']['cluster']\n"
        "told = [sys.argv[1], os.environ['COLOUR'], info['kind'], str(info['spec']['interactive'])]\n"
        "told += [cluster['server'], cluster['config']['audience'], ','.join(sorted(cluster))]\n"
        "status = {'token': ' '.join(told)}\n"
        f"print(json.dumps({{'kind': 'ExecCredential', 'apiVersion': '{V1BETA1}', 'status': status}}))\n"
    )
    script.chmod(0o755)
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "us"}}
    run = {
        "apiVersion": V1BETA1,
        "command": "bin/plugin",
        "args": ["argument"],
        "env": [{"name": "COLOUR", "value": "red"}],
        "provideClusterInfo": True,
    }
    cluster = {"server": "https://x", "certificate-authority": str(authority), "extensions": [extension]}
    content = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": {"exec": run}}],
    }
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(content))
    identity = await from_kubeconfig([file]).credentials.current()
    assert identity.token == "argument red ExecCredential False https://x us certificate-authority-data,config,server"
