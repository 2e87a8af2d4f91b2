"""What is read from the environment, and that it never shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.core.exitcodes import Code
from modelyard.weights.failures import FetchFailed
from modelyard.weights.settings import FetchSettings, tls_context
from tests.net.certificates import issue

if TYPE_CHECKING:
    from pathlib import Path


def test_an_empty_variable_counts_as_absent() -> None:
    assert FetchSettings.of({"HF_ENDPOINT": "", "AWS_REGION": "", "HF_TOKEN": "\n"}) == FetchSettings()


def test_every_variable_has_its_place() -> None:
    found = FetchSettings.of(
        {
            "HF_ENDPOINT": "https://hub.example/",
            "HF_TOKEN": "token\n",
            "AWS_ENDPOINT_URL": "http://[::1]:7070/\n",
            "AWS_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_SESSION_TOKEN": "session",
        }
    )
    expected = ("https://hub.example", "token", "http://[::1]:7070", "eu-west-1", "key", "secret", "session")
    assert found == FetchSettings(*expected)
    assert repr(found) == "FetchSettings(***)"


@pytest.mark.parametrize("name", ["HF_TOKEN", "AWS_REGION", "AWS_SECRET_ACCESS_KEY"])
@pytest.mark.parametrize("value", ["hid\nden", "hid den", "hid\u2603den"])
def test_what_cannot_be_in_a_header_is_named_and_not_shown(name: str, value: str) -> None:
    with pytest.raises(FetchFailed, match=name) as caught:
        FetchSettings.of({name: value})
    assert caught.value.code is Code.AUTH
    assert "den" not in str(caught.value)


@pytest.mark.parametrize("name", ["HF_ENDPOINT", "AWS_ENDPOINT_URL"])
@pytest.mark.parametrize("address", ["host", "ftp://host", "https://", "https://me:word@host", "https://host?x"])
def test_an_endpoint_must_be_the_address_of_a_server(name: str, address: str) -> None:
    with pytest.raises(FetchFailed, match=name) as caught:
        FetchSettings.of({name: address})
    assert caught.value.code is Code.BAD_SOURCE
    assert address not in caught.value.message


def test_every_file_of_a_mounted_config_map_is_trusted_whatever_it_is_called(tmp_path: Path) -> None:
    mounted, data = tmp_path / "custom-certs", tmp_path / "custom-certs" / "..2026_01_02"
    data.mkdir(parents=True)
    (mounted / "..data").symlink_to(data.name)
    for name in ("root.pem", "proxy.crt"):
        (data / name).write_text(issue(name, authority=True).pem)
        (mounted / name).symlink_to(f"..data/{name}")
    (mounted / "README").write_text("These are of the company.")
    assert len(tls_context(mounted).get_ca_certs()) == len(tls_context(None).get_ca_certs()) + 2


def test_a_folder_without_certificates_is_named(tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match=f"{tmp_path} holds no certificate"):
        tls_context(tmp_path)
