"""How the cluster is found, and how mistakes in its description are named."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from modelyard.kube.config import find, from_kubeconfig, in_cluster, in_cluster_as
from modelyard.kube.credentials import Identity, StaticCredentials
from modelyard.kube.errors import ConfigInvalid, NoCredentials
from modelyard.local.pki import Authority

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> str:
    return Authority.open(tmp_path_factory.mktemp("pki"), "test").certificate_file.read_text()


def config(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, name: str = "main", **more: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        **more,
    }


def write(folder: Path, content: Any, name: str = "config") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return file


def encoded(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


async def test_the_current_context_is_used(tmp_path: Path) -> None:
    found = from_kubeconfig([write(tmp_path, config(user={"token": "t"}))])
    assert (found.server, found.namespace, found.verify) == ("https://main:6443", "ns-main", True)
    assert await found.credentials.current() == Identity(token="t")


@pytest.mark.parametrize("server", ["https://[::1", "https://main:99999", "https://main:none", "main:6443"])
def test_an_address_that_is_none_is_named(tmp_path: Path, server: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"clusters\[0\].cluster.server: must be a URL such as"):
        from_kubeconfig([write(tmp_path, config({"server": server}))])


async def test_a_token_may_be_written_as_a_block(tmp_path: Path) -> None:
    found = from_kubeconfig([write(tmp_path, config(user={"token": "t\n"}))])
    assert await found.credentials.current() == Identity(token="t")


def test_the_text_of_a_kubeconfig_is_no_name_and_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="KUBECONFIG: holds the text of a kubeconfig") as refused:
        find({"KUBECONFIG": yaml.safe_dump(config(user={"token": "hush"}))}, home=tmp_path)
    assert "hush" not in str(refused.value)


def test_a_name_that_no_file_can_have_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be read: File name too long"):
        find({"KUBECONFIG": "x" * 300}, home=tmp_path)


def test_a_user_without_a_home_has_no_usual_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31)
    with pytest.raises(ConfigInvalid, match=r"~/.kube/config does not exist"):
        find({})


def test_another_context_can_be_asked_for(tmp_path: Path) -> None:
    two = config(name="two")
    both = {key: config()[key] + two[key] if isinstance(two[key], list) else config()[key] for key in two}
    assert from_kubeconfig([write(tmp_path, both)], context="two").server == "https://two:6443"


def test_of_several_files_the_first_that_names_a_thing_wins(tmp_path: Path) -> None:
    first = write(tmp_path, {"current-context": "two", "clusters": None}, "first")
    second = write(tmp_path, config(name="two"), "second")
    third = write(tmp_path, config({"server": "https://wrong"}, name="two"), "third")
    missing = tmp_path / "missing"
    listed = os.pathsep.join(map(str, (missing, first, second, third)))
    found = find({"KUBECONFIG": listed}, home=tmp_path)
    assert found.server == "https://two:6443"


def test_a_context_may_take_its_cluster_from_another_file(tmp_path: Path) -> None:
    contexts = {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "main"}}]}
    files = [write(tmp_path, contexts, "contexts"), write(tmp_path, config(), "clusters")]
    found = from_kubeconfig(files)
    assert (found.server, found.namespace) == ("https://main:6443", "default")


async def test_certificates_and_tokens_come_from_data_or_from_files_beside_the_kubeconfig(
    tmp_path: Path, authority: str
) -> None:
    data = {"client-certificate-data": encoded("cert"), "client-key-data": encoded("key"), "client-key": "ignored"}
    found = from_kubeconfig([write(tmp_path, config({"certificate-authority-data": encoded(authority)}, data))])
    assert found.authority == authority
    assert await found.credentials.current() == Identity(certificate=b"cert", key=b"key")

    for name, content in {"ca": authority, "cert": "file cert", "key": "file key", "token": "file token\n"}.items():
        write(tmp_path, f"# Główny\n{content}" if name == "ca" else content, f"pki/{name}")
    files = {"client-certificate": "pki/cert", "client-key": "pki/key", "tokenFile": "pki/token", "token": "ignored"}
    found = from_kubeconfig([write(tmp_path, config({"certificate-authority": "pki/ca"}, files))])
    assert found.authority.endswith(authority)
    assert await found.credentials.current() == Identity("file token", b"file cert", b"file key")


def test_the_name_in_the_server_certificate_can_be_set(tmp_path: Path) -> None:
    found = from_kubeconfig([write(tmp_path, config({"tls-server-name": "api", "insecure-skip-tls-verify": True}))])
    assert (found.server_name, found.verify) == ("api", False)


async def test_a_file_that_went_away_is_named(tmp_path: Path) -> None:
    found = from_kubeconfig([write(tmp_path, config(user={"tokenFile": "gone"}))])
    with pytest.raises(NoCredentials, match="gone"):
        await found.credentials.current()


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "get-token"}


@pytest.mark.parametrize(
    ("content", "field", "wrong"),
    [
        (config({"proxy-url": "http://proxy"}), "clusters[0].cluster.proxy-url", "not supported"),
        (config({"server": ""}), "clusters[0].cluster.server", "must be a URL"),
        (config({"server": "main:6443"}), "clusters[0].cluster.server", "must be a URL"),
        (config({"server": "https://u:p@main"}), "clusters[0].cluster.server", "must not hold a user"),
        (config({"certificate-authority-data": "%"}), "clusters[0].cluster.certificate-authority-data", "base64"),
        (
            config({"certificate-authority-data": encoded(b"\xff")}),
            "clusters[0].cluster.certificate-authority-data",
            "no usable certificate",
        ),
        (
            config(
                {"certificate-authority-data": encoded("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----")}
            ),
            "clusters[0].cluster.certificate-authority-data",
            "no usable certificate",
        ),
        (config({"certificate-authority": "empty"}), "clusters[0].cluster.certificate-authority", "no usable"),
        (config({"certificate-authority": "absent"}), "clusters[0].cluster.certificate-authority", "cannot be read"),
        (
            config({"certificate-authority": "x", "insecure-skip-tls-verify": True}),
            "clusters[0].cluster.insecure-skip-tls-verify",
            "must not be set together",
        ),
        (config(user={"auth-provider": {"name": "oidc"}}), "users[0].user.auth-provider", "use an exec plugin"),
        (config(user={"as": "admin"}), "users[0].user.as", "impersonation is not supported"),
        (config(user={"username": "u", "password": "p"}), "users[0].user.username", "passwords are not supported"),
        (config(user={"client-certificate-data": encoded("c")}), "users[0].user", "given together"),
        (config(user={"client-key-data": "%"}), "users[0].user.client-key-data", "base64"),
        (config(user={"exec": EXEC | {"apiVersion": "v1"}}), "users[0].user.exec.apiVersion", "must be one of"),
        (config(user={"exec": EXEC | {"command": ""}}), "users[0].user.exec.command", "must not be empty"),
        (
            config(user={"exec": EXEC | {"interactiveMode": "Always"}}),
            "users[0].user.exec.interactiveMode",
            "no terminal",
        ),
        (config(user={"token": 5}), "users[0].user.token", "Expected `str`"),
        (config() | {"current-context": ""}, "current-context", "is not set"),
        (config() | {"current-context": "other"}, "contexts", "none named 'other' (there is main)"),
        (config(clusters=[]), "clusters", "none named 'main'"),
        (config(users=None), "users", "none named 'main'"),
        ("a: [", "", "is not YAML (line 1)"),
        ("[]", "", "Expected `object`"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_field(tmp_path: Path, content: Any, field: str, wrong: str) -> None:
    file = write(tmp_path, content)
    write(tmp_path, "", "empty")
    with pytest.raises(ConfigInvalid) as caught:
        from_kubeconfig([file])
    assert str(file) in str(caught.value)
    assert caught.value.field == field
    assert wrong in caught.value.wrong


def test_a_broken_file_does_not_show_its_tokens(tmp_path: Path) -> None:
    file = write(tmp_path, "users:\n- user: {token: s3cret\n- }: [")
    with pytest.raises(ConfigInvalid) as caught:
        from_kubeconfig([file])
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        from_kubeconfig([tmp_path])


def test_no_file_at_all_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="does not exist"):
        find({"KUBECONFIG": str(tmp_path / "missing")}, home=tmp_path)
    with pytest.raises(ConfigInvalid, match="KUBECONFIG is not set"):
        find({}, home=tmp_path)


def test_the_usual_file_is_found_at_home(tmp_path: Path) -> None:
    write(tmp_path, config(), ".kube/config")
    assert find({}, home=tmp_path).server == "https://main:6443"


def account(folder: Path, authority: str) -> Path:
    for name, content in {"token": "sa\n", "namespace": "here", "ca.crt": authority}.items():
        write(folder, content, name)
    return folder


async def test_a_pod_uses_its_service_account(tmp_path: Path, authority: str) -> None:
    write(tmp_path, config(), ".kube/config")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    found = find(pod, home=tmp_path, account=account(tmp_path / "account", authority))
    assert (found.server, found.namespace, found.authority) == ("https://10.0.0.1:6443", "here", authority)
    assert await found.credentials.current() == Identity(token="sa")


def test_a_pod_may_live_on_ipv6(tmp_path: Path, authority: str) -> None:
    found = in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, account(tmp_path, authority))
    assert found.server == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    ("missing", "wrong"),
    [("token", "automountServiceAccountToken"), ("ca.crt", "ca.crt"), ("namespace", "namespace")],
)
def test_a_pod_without_a_service_account_is_told_so(tmp_path: Path, authority: str, missing: str, wrong: str) -> None:
    (account(tmp_path, authority) / missing).unlink()
    with pytest.raises(ConfigInvalid, match=wrong):
        in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)


def test_outside_of_a_pod_there_is_no_service_account(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="not a pod"):
        in_cluster({}, tmp_path)


def test_a_pod_may_ask_as_a_user_without_an_account_of_its_own(tmp_path: Path, authority: str) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(authority)
    credentials = StaticCredentials(Identity(token="of-a-user"))
    found = in_cluster_as({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, credentials, file)
    assert (found.server, found.credentials, found.authority_file) == ("https://10.0.0.1:443", credentials, file)
