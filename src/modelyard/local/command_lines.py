"""The command lines of etcd, the API server, the controller manager and the scheduler. Pure.

`controlplane` starts them. Every program listens on 127.0.0.1 only, or not at all.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import yaml
from msgspec import Struct

from modelyard.local.pki import Keypair

# Loopback addresses, on which any program may listen on Linux: so the proxy can serve a Service at its own ClusterIP.
SERVICE_RANGE = "127.96.0.0/16"
FIRST_SERVICE_IP = "127.96.0.1"
NODE_CALLER = "modelyard-apiserver"
"""The user name in the client certificate that the API server shows to the kubelet's server."""
FRONT_PROXY = "modelyard-front-proxy"
"""The name in the client certificate that the API server shows to servers of further APIs."""
_ISSUER = "https://kubernetes.default.svc"

AUDIT_POLICY = yaml.safe_dump(
    {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
            {"level": "None"},
        ],
    }
)


class Trust(Struct, frozen=True):
    """The certificate authority that a server trusts, and its own certificate."""

    authority: Path
    identity: Keypair


class EtcdPorts(Struct, frozen=True):
    """Where etcd listens: for the API server, for HTTP, which it does not use, and for other replicas."""

    client: int
    http: int
    peer: int


def etcd(program: Path, data: Path, ports: EtcdPorts, trust: Trust, *, durable: bool) -> list[str]:
    """Return the command line of etcd. It accepts only clients with a certificate of its own authority."""
    client, http, peer = (f"https://127.0.0.1:{port}" for port in (ports.client, ports.http, ports.peer))
    certificate, key = trust.identity.certificate, trust.identity.key
    return [
        str(program),
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        # Without a port of its own, HTTP shares that of gRPC, which then takes a way that costs half as much CPU again.
        f"--listen-client-http-urls={http}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        *(f"--{side}cert-file={certificate}" for side in ("", "peer-")),
        *(f"--{side}key-file={key}" for side in ("", "peer-")),
        *(f"--{side}trusted-ca-file={trust.authority}" for side in ("", "peer-")),
        *(f"--{side}client-cert-auth" for side in ("", "peer-")),
        "--auto-compaction-retention=5m",
        "--log-level=warn",
        *([] if durable else ["--unsafe-no-fsync"]),
    ]


class ApiServer(Struct, frozen=True):
    """The ports, files and certificates of an API server."""

    program: Path
    port: int
    trust: Trust
    etcd_port: int
    etcd_trust: Trust
    signing_key: Path
    kubelet_trust: Trust
    """Its client certificate for the kubelet's server, and the authority of that server."""
    front_proxy: Trust
    """Its client certificate for servers of further APIs, which tells them whose request it passes on."""
    audit_policy: Path
    audit_log: Path
    extra: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Return the command line of the API server."""
        parts = (
            self._serving(),
            self._storage(),
            self._accounts(),
            self._nodes(),
            self._aggregation(),
            self._audit(),
        )
        return [str(self.program), *chain.from_iterable(parts), *self.extra]

    def _serving(self) -> list[str]:
        return [
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            # Endpoints of the Service `kubernetes` may not be loopback addresses; the proxy knows the address itself.
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.port}",
            f"--tls-cert-file={self.trust.identity.certificate}",
            f"--tls-private-key-file={self.trust.identity.key}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            # Without it a server that is stopped waits for its watches, which never end by themselves.
            "--shutdown-watch-termination-grace-period=500ms",
            # As on every cluster of kubeadm. Pod Security admission decides which pods may be privileged.
            "--allow-privileged",
            "--profiling=false",
        ]

    def _storage(self) -> list[str]:
        return [
            f"--etcd-servers=https://127.0.0.1:{self.etcd_port}",
            f"--etcd-cafile={self.etcd_trust.authority}",
            f"--etcd-certfile={self.etcd_trust.identity.certificate}",
            f"--etcd-keyfile={self.etcd_trust.identity.key}",
        ]

    def _accounts(self) -> list[str]:
        return [
            "--anonymous-auth=false",
            "--authorization-mode=RBAC",
            f"--client-ca-file={self.trust.authority}",
            f"--service-account-issuer={_ISSUER}",
            f"--service-account-key-file={self.signing_key}",
            f"--service-account-signing-key-file={self.signing_key}",
        ]

    def _nodes(self) -> list[str]:
        return [
            # Otherwise it would look up the name of the node, which is in no DNS.
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={self.kubelet_trust.authority}",
            f"--kubelet-client-certificate={self.kubelet_trust.identity.certificate}",
            f"--kubelet-client-key={self.kubelet_trust.identity.key}",
        ]

    def _aggregation(self) -> list[str]:
        return [
            f"--proxy-client-cert-file={self.front_proxy.identity.certificate}",
            f"--proxy-client-key-file={self.front_proxy.identity.key}",
            f"--requestheader-client-ca-file={self.front_proxy.authority}",
            f"--requestheader-allowed-names={FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ]

    def _audit(self) -> list[str]:
        return [
            f"--audit-policy-file={self.audit_policy}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=200",
            "--audit-log-maxbackup=1",
        ]


def controller_manager(program: Path, kubeconfig: Path, authority: Path, signing_key: Path) -> list[str]:
    """Return the command line of the controller manager. Each controller uses a service account of its own."""
    return [
        str(program),
        *_client(kubeconfig),
        "--use-service-account-credentials",
        f"--service-account-private-key-file={signing_key}",
        f"--root-ca-file={authority}",
    ]


def scheduler(program: Path, kubeconfig: Path) -> list[str]:
    """Return the command line of the scheduler."""
    return [str(program), *_client(kubeconfig)]


def _client(kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--profiling=false",
    ]
