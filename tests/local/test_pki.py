"""Certificates say who somebody is, and only their own authority vouches for them."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from modelyard.local import pki
from modelyard.local.pki import Authority, load_key, signing_key

if TYPE_CHECKING:
    from pathlib import Path


def _authority(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())


def test_a_user_and_groups_become_the_subject(tmp_path: Path) -> None:
    issued = x509.load_pem_x509_certificate(Authority.open(tmp_path, "a").client("user", ("one", "two")).certificate)
    names = [issued.subject.get_attributes_for_oid(oid) for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)]
    assert [[name.value for name in group] for group in names] == [["user"], ["one", "two"]]


def test_a_server_is_known_by_names_and_addresses(tmp_path: Path) -> None:
    issued = Authority.open(tmp_path, "a").server("server", ("127.0.0.1", "::1", "localhost"))
    certificate = x509.load_pem_x509_certificate(issued.certificate)
    hosts = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(host) for host in hosts.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert hosts.get_values_for_type(x509.DNSName) == ["localhost"]


def test_an_authority_vouches_for_its_own_only(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    issued = x509.load_pem_x509_certificate(Authority.open(ours, "a").client("user").certificate)
    Authority.open(theirs, "a")
    issued.verify_directly_issued_by(_authority(ours))
    with pytest.raises(InvalidSignature):
        issued.verify_directly_issued_by(_authority(theirs))


def test_an_authority_is_founded_once(tmp_path: Path) -> None:
    Authority.open(tmp_path, "a")
    founded = _authority(tmp_path)
    issued = Authority.open(tmp_path, "a").client("user")
    assert _authority(tmp_path) == founded
    x509.load_pem_x509_certificate(issued.certificate).verify_directly_issued_by(founded)


@pytest.mark.parametrize("file", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("content", [None, b"", b"\xff{"])
def test_an_authority_that_is_damaged_is_founded_anew(tmp_path: Path, file: str, content: bytes | None) -> None:
    Authority.open(tmp_path, "a")
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_bytes(content)
    issued = Authority.open(tmp_path, "a").client("user")
    x509.load_pem_x509_certificate(issued.certificate).verify_directly_issued_by(_authority(tmp_path))


def test_an_authority_with_the_key_of_another_is_founded_anew(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        Authority.open(tmp_path / name, "a")
    (tmp_path / "theirs" / "ca.key").rename(tmp_path / "ours" / "ca.key")
    issued = Authority.open(tmp_path / "ours", "a").client("user")
    x509.load_pem_x509_certificate(issued.certificate).verify_directly_issued_by(_authority(tmp_path / "ours"))


@pytest.mark.parametrize("lifetime", [timedelta(days=-1), timedelta(days=300)])
def test_an_authority_that_expires_soon_is_founded_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lifetime: timedelta
) -> None:
    with monkeypatch.context() as old:
        old.setattr(pki, "_BACKDATED", timedelta(days=3650))
        old.setattr(pki, "_LIFETIME", lifetime)
        Authority.open(tmp_path, "a")
    Authority.open(tmp_path, "a")
    assert _authority(tmp_path).not_valid_after_utc > datetime.now(UTC) + timedelta(days=3000)


def test_a_signing_key_is_made_once_and_for_us_only(tmp_path: Path) -> None:
    file = tmp_path / "sign.key"
    made = signing_key(file).read_bytes()
    assert signing_key(file).read_bytes() == made
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_key_of_another_kind_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "other.key"
    key = ed25519.Ed25519PrivateKey.generate()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert load_key(file) is None
    assert isinstance(load_key(signing_key(file)), ec.EllipticCurvePrivateKey)
