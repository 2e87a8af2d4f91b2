"""The certificates of one control plane, signed by an authority of its own.

Keys are elliptic (P-256), because making one takes a millisecond. Certificates are issued anew at every start, so only
the authority itself has to live long, and nothing is lost when one that is damaged or about to expire is founded anew.
Nothing here is meant for a cluster that other machines can reach.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from modelyard.local.files import file_name, private_folder, write_private

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIFETIME = timedelta(days=3650)
# The clock of a machine that wakes up may still be behind the one that signed.
_BACKDATED = timedelta(hours=1)
# Nobody lets a machine run for longer without a start.
_LEAST_LEFT = timedelta(days=365)


class Credential(Struct, frozen=True):
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


class Keypair(Struct, frozen=True):
    """Where a certificate and its private key are stored, for programs that take files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority kept in one folder."""

    def __init__(self, folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._folder, self._certificate, self._key = folder, certificate, key

    @classmethod
    def open(cls, folder: Path, name: str) -> Self:
        """Load the authority of a folder, or found it."""
        private_folder(folder)
        certificate_file, key_file = folder / "ca.crt", folder / "ca.key"
        key, certificate = load_key(key_file), _load_certificate(certificate_file)
        if key is None or certificate is None or not _is_good(certificate, key):
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = _found(name, key)
            write_private(key_file, _key_pem(key))
            write_private(certificate_file, certificate.public_bytes(Encoding.PEM))
        return cls(folder, certificate, key)

    @property
    def certificate_file(self) -> Path:
        """The file that others trust."""
        return self._folder / "ca.crt"

    def client(self, user: str, groups: Iterable[str] = ()) -> Credential:
        """Issue what proves to the API server that somebody is this user of these groups."""
        return self._issue(user, groups, [])

    def server(self, name: str, hosts: Iterable[str]) -> Credential:
        """Issue what proves that a server is one of these hosts. It may also dial others of its kind."""
        return self._issue(name, (), [_general_name(host) for host in hosts])

    def store(self, name: str, credential: Credential) -> Keypair:
        """Write a credential to files."""
        stem = file_name(name)
        return Keypair(
            certificate=write_private(self._folder / f"{stem}.crt", credential.certificate),
            key=write_private(self._folder / f"{stem}.key", credential.key),
        )

    def _issue(self, name: str, groups: Iterable[str], hosts: list[x509.GeneralName]) -> Credential:
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = (
            _builder(_subject(name, groups), self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Credential(certificate.public_bytes(Encoding.PEM), _key_pem(key))


def signing_key(file: Path) -> Path:
    """Return the file of a private key that signs service account tokens; make it when it is absent or damaged."""
    if load_key(file) is not None:
        return file
    return write_private(file, _key_pem(ec.generate_private_key(ec.SECP256R1())))


def load_key(file: Path) -> ec.EllipticCurvePrivateKey | None:
    """Load a private key that this module wrote; None: there is none, or something else."""
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    # A TypeError: of a key that a password protects.
    except (FileNotFoundError, ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _load_certificate(file: Path) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _is_good(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bool:
    """Whether both belong together, and others will take what they vouch for until the next start."""
    now = datetime.now(UTC)
    is_valid = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _LEAST_LEFT
    return is_valid and certificate.public_key() == key.public_key()


def _found(name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    subject = _subject(name, ())
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(subject, subject, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _subject(name: str, groups: Iterable[str]) -> x509.Name:
    """Name a user the way Kubernetes reads it: the common name is the user, organisations are the groups."""
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # Kubernetes takes the public half of a service account key out of this format, not out of PKCS #8.
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
