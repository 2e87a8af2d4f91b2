"""The certificate authority of one control plane, and the certificates that it signs: `kubeadm init phase certs`.

`controlplane` uses it. Keys are P-256, because making one takes a millisecond. Certificates are issued anew at every
start, so only the authority has to last, and one that is damaged or about to expire is replaced without loss. It is not
meant for a cluster that other machines can reach.
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
# The clock of a machine that wakes up may be behind the time of signing for a while.
_BACKDATED = timedelta(hours=1)
# The longest time that one `modelyard up` is expected to run.
_LEAST_LEFT = timedelta(days=365)


class Credential(Struct, frozen=True):
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


class Keypair(Struct, frozen=True):
    """The files of a certificate and its private key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that is kept in one folder."""

    def __init__(self, folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._folder, self._certificate, self._key = folder, certificate, key

    @classmethod
    def open(cls, folder: Path, name: str) -> Self:
        """Load the authority of a folder; make a new one when there is none, or it is damaged or about to expire."""
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
        """The file of the authority's own certificate, which clients and servers trust."""
        return self._folder / "ca.crt"

    def client(self, user: str, groups: Iterable[str] = ()) -> Credential:
        """Issue a client certificate for a user of these groups."""
        return self._issue(user, groups, [])

    def server(self, name: str, hosts: Iterable[str]) -> Credential:
        """Issue a certificate for a server at these hosts. It is one for clients too: peers of etcd dial each other."""
        return self._issue(name, (), [_general_name(host) for host in hosts])

    def store(self, name: str, credential: Credential) -> Keypair:
        """Write a certificate and its key to files of the authority's folder, and return them."""
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
    """Return the file of the key that signs service account tokens; make it when it is missing or damaged."""
    if load_key(file) is not None:
        return file
    return write_private(file, _key_pem(ec.generate_private_key(ec.SECP256R1())))


def load_key(file: Path) -> ec.EllipticCurvePrivateKey | None:
    """Return the private key in a file; None: there is no file, or no elliptic key in it."""
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    # TypeError is what a key with a password raises.
    except (FileNotFoundError, ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _load_certificate(file: Path) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _is_good(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bool:
    """Whether certificate and key belong together, and stay valid for as long as a machine is expected to run."""
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
    """Return the subject for a Kubernetes user: the common name is the user, organisations are the groups."""
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The API server reads the public half of the signing key out of this format, not out of PKCS #8.
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
