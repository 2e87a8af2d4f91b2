"""References to a Gateway of the same namespace, in place of its URL: the field `gatewayRef`.

Pure. Kinds whose pods are clients of a gateway put `GatewayRef` into their spec, name `read_gateway` among their reads,
and ask `resolve_gateway` in plan and status. A gateway that serves HTTPS has a certificate of the cluster's own, which
no client trusts by itself, so it is mounted: `trust_volume`, `trust_mount` and `TRUST_ENV`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from modelyard.core.conditions import Problem, Truth, stored_condition
from modelyard.core.pod_fields import ObjectName
from modelyard.core.reasons import Reason
from modelyard.core.resources import SECRET, Resource
from modelyard.kinds.contract import Named
from modelyard.kinds.shared.config_refs import ConfigRef

if TYPE_CHECKING:
    from modelyard.kinds.contract import Seen

GATEWAY: Final = Resource("core.inference-gateway.com", "v1alpha1", "Gateway", "gateways")
"""The kind Gateway. Here, because its clients and the kind itself need it."""
TLS_SECRET: Final = "inference-gateway-tls"  # noqa: S105 - the name of a Secret, not its content
CERTIFICATE: Final = "tls.crt"
"""Where the certificate of a Gateway is that names no other place."""
AUTHORITY: Final = "ca.crt"
"""The key under which issuers put the certificate of the authority, next to the other one."""

TRUST_FOLDER: Final = "/etc/gateway-tls"
TRUST_ENV: Final = {"SSL_CERT_DIR": f"/etc/ssl/certs:{TRUST_FOLDER}"}
"""Go and OpenSSL read authorities from these folders, besides the file of the system."""

Json = dict[str, Any]


class GatewayRef(Struct, frozen=True, rename="camel"):
    """A Gateway of the same namespace."""

    name: Annotated[ObjectName, Meta(description="Its name.", min_length=1)]


class ResolvedGateway(Struct, frozen=True):
    """What a reference leads to: the address of a gateway, or a problem, or both while it does not answer yet."""

    url: str
    """Where pods reach it, without a path, such as `http://edge.default.svc.cluster.local:8080`; empty: not known."""
    problem: Problem | None
    """Why it does not answer (yet); None: it does."""
    certificate: ConfigRef | None = None
    """The key of a Secret with the certificate that it presents; None: it speaks plain HTTP, or is none of ours."""


def read_gateway(ref: GatewayRef) -> Named:
    """Return the read of the Gateway that a reference names."""
    return Named(GATEWAY, ref.name)


def resolve_gateway(ref: GatewayRef, field: str, seen: Seen, *, key_field: str) -> ResolvedGateway:
    """Return where a gateway is; `field` is where the user wrote the reference, for the message of a problem.

    `key_field` is where a token for it would have to be; empty: there is one.
    """
    stored = seen.one(read_gateway(ref))
    if stored is None or stored.meta.deleting:
        problem = Problem(
            Reason.REFERENCE_NOT_FOUND,
            f"the Gateway {ref.name} named by {field} does not exist in this namespace",
            f"create it, or name another in {field}",
        )
        return ResolvedGateway("", problem)
    if key_field and (stored.spec.get("auth") or {}).get("enabled"):
        problem = Problem(
            Reason.REFERENCE_UNFIT,
            f"the Gateway {ref.name} named by {field} refuses every request without a token, and there is none",
            f"put a token into a Secret, and name it in {key_field}",
        )
        return ResolvedGateway("", problem)
    status = stored.status
    awaited = Problem(
        Reason.REFERENCE_NOT_READY,
        f"the Gateway {ref.name} named by {field} does not answer yet",
        f"wait, or see `kubectl describe {GATEWAY.label} {ref.name}`",
    )
    url, answers = str(status.get("serviceUrl", "")), stored_condition(status, "Available").get("status") == Truth.TRUE
    return ResolvedGateway(url, None if url and answers else awaited, _certificate(stored.spec))


def _certificate(spec: Json) -> ConfigRef | None:
    tls = (spec.get("server") or {}).get("tls") or {}
    named = tls.get("certificateRef") or {}
    found = ConfigRef(SECRET.kind, str(named.get("name") or TLS_SECRET), str(named.get("key") or CERTIFICATE))
    return found if tls.get("enabled") else None


def trusted(certificate: ConfigRef | None) -> tuple[ConfigRef, ...]:
    """Return what clients are given to trust: the certificate and its authority; empty: plain HTTP."""
    return (certificate, ConfigRef(SECRET.kind, certificate.name, AUTHORITY)) if certificate else ()


def trust_volume(certificate: ConfigRef) -> Json:
    """Return the volume with the certificates to trust. The private key is in the same Secret, and stays there."""
    own = {"name": certificate.name, "items": [{"key": certificate.key, "path": CERTIFICATE}]}
    authority = {"name": certificate.name, "items": [{"key": AUTHORITY, "path": AUTHORITY}], "optional": True}
    return {"name": "gateway-tls", "projected": {"sources": [{"secret": own}, {"secret": authority}]}}


def trust_mount() -> Json:
    """Return the mount of that volume."""
    return {"name": "gateway-tls", "mountPath": TRUST_FOLDER, "readOnly": True}
