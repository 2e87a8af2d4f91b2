"""The client configuration: from `KUBECONFIG`, else from the pod we run in, else from `~/.kube/config`.

Called by the command line. What is not supported is refused by name: with a proxy, an impersonation or an auth provider
silently left out, we would reach another server, or reach it as another user.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from modelyard.home import home_folder
from modelyard.kube.connection import Connection
from modelyard.kube.credentials import CredentialFiles, Credentials, Identity, RenewedCredentials, StaticCredentials
from modelyard.kube.errors import ConfigInvalid
from modelyard.kube.exec_plugin import API_VERSIONS, Command, ExecPlugin
from modelyard.kube.kubeconfig import Chosen, Cluster, Place, User, choose
from modelyard.kube.tls import certificates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a kubelet mounts the token of a pod's service account and the CA of the API server."""

_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"


def find(
    environ: Mapping[str, str], context: str = "", *, home: Path | None = None, account: Path = SERVICE_ACCOUNT
) -> Connection:
    """Return the connection to the cluster that these environment variables stand for.

    A `context` is one of a kubeconfig; empty: the current one, or the cluster of the pod we run in.
    """
    if listed := _listed(environ):
        return from_kubeconfig(listed, context)
    if environ.get("KUBERNETES_SERVICE_HOST") and not context:
        return in_cluster(environ, account)
    if (usual := _usual(home)).exists():
        return from_kubeconfig([usual], context)
    raise ConfigInvalid("no cluster", "", f"KUBECONFIG is not set, {usual} does not exist, and this is not a pod")


def is_named(environ: Mapping[str, str], *, home: Path | None = None) -> bool:
    """Return whether anything names a cluster: these environment variables, or the usual file."""
    listed = environ.get("KUBECONFIG", "").strip(os.pathsep)
    return bool(listed or environ.get("KUBERNETES_SERVICE_HOST") or _usual(home).exists())


def in_cluster(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> Connection:
    """Return the connection to the cluster that this pod runs in, as its service account."""
    token = account / "token"
    server = _server_of_pod(environ)
    if not token.exists():
        raise ConfigInvalid(str(token), "", "does not exist; set automountServiceAccountToken: true in the pod")
    found = _of_pod(server, RenewedCredentials(CredentialFiles(token=token).fetch), account / "ca.crt")
    namespace = _text(account / "namespace", ConfigInvalid(str(account), "namespace", "cannot be read")).strip()
    return msgspec.structs.replace(found, namespace=namespace)


def in_cluster_as(environ: Mapping[str, str], credentials: Credentials, authority: Path) -> Connection:
    """Return the connection to the cluster that this pod runs in, with the credentials of a user.

    `authority` is the file with the CA of the API server: of the service account, or of the ConfigMap
    `kube-root-ca.crt`, which needs no account.
    """
    return _of_pod(_server_of_pod(environ), credentials, authority)


def from_kubeconfig(files: Sequence[Path], context: str = "") -> Connection:
    """Return the connection to the cluster of a context; empty: of the current context."""
    chosen = choose(files, context)
    cluster, place = chosen.cluster, chosen.cluster_place
    authority = _authority(cluster, place)
    return Connection(
        server=_server(cluster, place),
        credentials=_credentials(chosen, authority),
        namespace=chosen.namespace or "default",
        authority=authority,
        authority_file=None if cluster.certificate_authority_data else _named(cluster.certificate_authority, place),
        server_name=cluster.tls_server_name,
        verify=not cluster.insecure_skip_tls_verify,
    )


def _listed(environ: Mapping[str, str]) -> list[Path]:
    named = environ.get("KUBECONFIG", "")
    # Some CI systems put the text there. It must not be taken for names, which errors show: it holds credentials.
    if "\n" in named.strip():
        raise ConfigInvalid("KUBECONFIG", "", "holds the text of a kubeconfig; write it to a file, and name that")
    return [Path(part) for part in named.split(os.pathsep) if part]


def _usual(home: Path | None) -> Path:
    # Without a home it is a file that does not exist, by the name that users know.
    return (home or home_folder() or Path("~")) / ".kube" / "config"


def _server_of_pod(environ: Mapping[str, str]) -> str:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigInvalid("environment", "KUBERNETES_SERVICE_HOST", "is not set; this is not a pod")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _of_pod(server: str, credentials: Credentials, authority: Path) -> Connection:
    place, name = str(authority.parent), authority.name
    text = _text(authority, ConfigInvalid(place, name, "cannot be read"))
    return Connection(
        server=server,
        credentials=credentials,
        authority=_certificates(text, ConfigInvalid(place, name, "holds no usable certificate")),
        authority_file=authority,
    )


def _server(cluster: Cluster, place: Place) -> str:
    if cluster.proxy_url:
        raise place.wrong("cluster.proxy-url", "proxies are not supported; connect directly or through a tunnel")
    try:
        url = urlsplit(cluster.server)
        is_address = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError:
        # Brackets that do not close, or a port that is none.
        is_address = False
    if not is_address:
        raise place.wrong("cluster.server", "must be a URL such as https://host:6443")
    if url.username or url.query or url.fragment:
        raise place.wrong("cluster.server", "must not hold a user, a query or a fragment")
    return cluster.server.rstrip("/")


def _authority(cluster: Cluster, place: Place) -> str:
    if not (cluster.certificate_authority_data or cluster.certificate_authority):
        return ""
    if cluster.insecure_skip_tls_verify:
        raise place.wrong("cluster.insecure-skip-tls-verify", "must not be set together with a certificate authority")
    if cluster.certificate_authority_data:
        field = "cluster.certificate-authority-data"
        text = _decoded(cluster.certificate_authority_data, place, field).decode(errors="replace")
        return _certificates(text, place.wrong(field, "holds no usable certificate"))
    path, field = place.path(cluster.certificate_authority), "cluster.certificate-authority"
    text = _text(path, place.wrong(field, f"{path} cannot be read"))
    return _certificates(text, place.wrong(field, f"{path} holds no usable certificate"))


def _credentials(chosen: Chosen, authority: str) -> Credentials:
    user, place = chosen.user, chosen.user_place
    _refuse_unsupported(user, place)
    if user.exec is not None and not (user.token or user.token_file):
        return RenewedCredentials(_plugin(user.exec, place, chosen.cluster, authority).fetch)
    files = CredentialFiles(
        rest=Identity(
            token=user.token.strip(),
            certificate=_decoded(user.client_certificate_data, place, "user.client-certificate-data"),
            key=_decoded(user.client_key_data, place, "user.client-key-data"),
        ),
        token=_named(user.token_file, place),
        certificate=None if user.client_certificate_data else _named(user.client_certificate, place),
        key=None if user.client_key_data else _named(user.client_key, place),
    )
    if bool(files.certificate or files.rest.certificate) != bool(files.key or files.rest.key):
        raise place.wrong("user", "a client certificate and its key must be given together")
    if files.token or files.certificate or files.key:
        return RenewedCredentials(files.fetch)
    return StaticCredentials(files.rest)


def _refuse_unsupported(user: User, place: Place) -> None:
    if user.auth_provider is not None:
        raise place.wrong("user.auth-provider", "auth providers are not supported; use an exec plugin")
    if user.impersonate is not None:
        raise place.wrong("user.as", "impersonation is not supported; use credentials of that user")
    if user.username:
        raise place.wrong("user.username", "passwords are not supported; use a token or a client certificate")


def _plugin(command: Command, place: Place, cluster: Cluster, authority: str) -> ExecPlugin:
    if command.api_version not in API_VERSIONS:
        raise place.wrong("user.exec.apiVersion", f"must be one of {', '.join(API_VERSIONS)}")
    if command.interactive_mode == "Always":
        raise place.wrong("user.exec.interactiveMode", "must not be Always; there is no terminal to ask at")
    if not command.command:
        raise place.wrong("user.exec.command", "must not be empty")
    if "/" in command.command:
        command = msgspec.structs.replace(command, command=str(place.path(command.command)))
    return ExecPlugin(command, _shown(cluster, authority) if command.provide_cluster_info else None)


def _shown(cluster: Cluster, authority: str) -> dict[str, Any]:
    """Return what a plugin is told of the cluster; empty fields are left out, as kubectl does."""
    extensions = {entry.name: entry.extension for entry in cluster.extensions or ()}
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
        "config": extensions.get(_EXEC_EXTENSION),
    }
    return {name: value for name, value in told.items() if value}


def _named(text: str, place: Place) -> Path | None:
    return place.path(text) if text else None


def _decoded(text: str, place: Place, field: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise place.wrong(field, "is not base64") from None


def _text(path: Path, otherwise: ConfigInvalid) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise otherwise from error


def _certificates(text: str, otherwise: ConfigInvalid) -> str:
    """Return the certificates if OpenSSL takes them: here the place of the mistake is known, later it is not."""
    try:
        return certificates(text)
    except ssl.SSLError as error:
        raise otherwise from error
