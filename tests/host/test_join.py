"""The manifests that make a machine known to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from modelyard.cli.verbs import app
from modelyard.host.join import Joining, host_name, manifests
from modelyard.host.settings import HostRecord, write_host_record
from modelyard.kinds.inferencehost.api import RESOURCE, InferenceHostSpec
from tests.support.own_network import run_in_own_network

if TYPE_CHECKING:
    from pathlib import Path


def test_a_secret_and_a_host_are_made() -> None:
    joining = Joining("studio", "https://10.0.0.5:11434", "secret", namespace="models", ca="PEM")
    assert manifests(joining) == [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "studio-host", "namespace": "models"},
            "stringData": {"token": "secret", "ca.crt": "PEM"},
        },
        {
            "apiVersion": "modelyard.dev/v1alpha1",
            "kind": "InferenceHost",
            "metadata": {"name": "studio", "namespace": "models"},
            "spec": {
                "endpoint": "https://10.0.0.5:11434",
                "auth": {"secretRef": {"name": "studio-host", "key": "token"}},
                "tls": {"caSecretRef": {"name": "studio-host", "key": "ca.crt"}},
            },
        },
    ]


def test_the_host_is_one_that_the_operator_reads() -> None:
    _, host = manifests(Joining("studio", "https://10.0.0.5:11434", "secret", ca="PEM"))
    assert (host["apiVersion"], host["kind"]) == (RESOURCE.api_version, RESOURCE.kind)
    spec = msgspec.convert(host["spec"], InferenceHostSpec)
    assert spec.auth is not None
    assert spec.tls is not None
    assert spec.tls.ca_secret_ref is not None
    read = (spec.endpoint, spec.auth.secret_ref.name, spec.auth.secret_ref.key, spec.tls.ca_secret_ref.key)
    assert read == ("https://10.0.0.5:11434", "studio-host", "token", "ca.crt")


@pytest.mark.parametrize(
    ("machine", "name"),
    [("Mac-Studio.local", "mac-studio"), ("Jo's MacBook", "jo-s-macbook"), ("_", "host"), ("a" * 70, "a" * 58)],
)
def test_the_name_of_a_machine_becomes_that_of_an_object(machine: str, name: str) -> None:
    assert host_name(machine) == name


def test_the_command_reads_what_the_daemon_has_written(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("12e34\n")
    write_host_record(tmp_path, HostRecord(11500, str(tmp_path / "token"), is_tls=True))
    result = CliRunner().invoke(app, ["host", "join", "studio", "--dir", str(tmp_path)])
    secret, host = yaml.safe_load_all(result.stdout)
    assert secret["stringData"] == {"token": "12e34"}
    assert "token: '12e34'\n" in result.stdout, "kubectl would read it as a number"
    assert host["spec"]["endpoint"].startswith("https://")
    assert host["spec"]["endpoint"].endswith(":11500")


@pytest.mark.parametrize(("address", "url"), [("10.0.0.5", "http://10.0.0.5:1"), ("fd00::5", "http://[fd00::5]:1")])
def test_the_one_address_of_a_daemon_is_the_endpoint(tmp_path: Path, address: str, url: str) -> None:
    (tmp_path / "token").write_text("secret\n")
    write_host_record(tmp_path, HostRecord(1, str(tmp_path / "token"), address))
    result = CliRunner().invoke(app, ["host", "join", "--dir", str(tmp_path)])
    assert next(iter(yaml.safe_load_all(result.stdout.partition("---")[2])))["spec"]["endpoint"] == url


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "this machine has no IPv4 address; listen at [::] if it has one of IPv6, or name the URL with --endpoint"),
        ("::", "this machine has no address; connect it to a network, or name the URL with --endpoint"),
    ],
)
def test_a_machine_without_an_address_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, said: str
) -> None:
    monkeypatch.setattr("modelyard.cli.host._own_address", lambda _: "")
    (tmp_path / "token").write_text("secret\n")
    write_host_record(tmp_path, HostRecord(1, str(tmp_path / "token"), address))
    assert str(CliRunner().invoke(app, ["host", "join", "--dir", str(tmp_path)]).exception) == said


async def test_a_daemon_at_all_addresses_has_ipv4_and_joins_with_ipv6_where_that_is_all_there_is(
    tmp_path: Path,
) -> None:
    await run_in_own_network(60, "tests.host.ipv6_only", str(tmp_path))


@pytest.mark.parametrize(
    "option",
    [
        "--listen=11434",
        "--listen=mac.local:11434",
        "--listen=127.0.0.1:99999",
        "--allow=10.0.0.1/8",
        "--memory=much",
        "--drain=soon",
        "--tls-key=k",
    ],
)
def test_a_bad_option_is_refused_by_name(option: str) -> None:
    result = CliRunner().invoke(app, ["host", option])
    assert result.exit_code == 2
    assert option.partition("=")[0] in result.output


def test_a_machine_without_a_daemon_is_told_to_start_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["host", "join", "--dir", str(tmp_path)])
    assert "start `modelyard host` first" in str(result.exception)
