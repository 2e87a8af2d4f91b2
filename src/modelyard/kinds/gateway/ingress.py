"""The Ingress that leads to the Service of a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from modelyard.core.resources import INGRESS
from modelyard.kinds.gateway.exposure import INGRESS_CLASS, IngressHost, IngressPath
from modelyard.kinds.gateway.naming import child_labels
from modelyard.kinds.shared import workloads
from modelyard.kinds.shared.pods import without_empty

if TYPE_CHECKING:
    from modelyard.core.plan import Child
    from modelyard.kinds.gateway.api import GatewaySpec
    from modelyard.kinds.gateway.exposure import IngressTls

Json = dict[str, Any]

GROUP: Final = "ingress"
ISSUER: Final = "cert-manager.io/cluster-issuer"
_NGINX: Final = "nginx"
_NGINX_PREFIX: Final = "nginx.ingress.kubernetes.io"


def ingress(spec: GatewaySpec, name: str) -> tuple[Child, ...]:
    """Return the Ingress; empty: none is wanted."""
    block = spec.ingress
    if not block.enabled:
        return ()
    body = {
        "ingressClassName": block.class_name or INGRESS_CLASS,
        "rules": [_rule(host, name) for host in hosts(spec)],
        "tls": _tls_entries(spec, name),
    }
    child = workloads.child(INGRESS, name, child_labels(name), {"spec": without_empty(body)})
    child.body["metadata"].update(without_empty({"annotations": _annotations(spec)}))
    return (replace(child, group=GROUP),)


def hosts(spec: GatewaySpec) -> tuple[IngressHost, ...]:
    """Return the hosts of the Ingress: the short form, or the list."""
    return (IngressHost(spec.ingress.host),) if spec.ingress.host else spec.ingress.hosts


def has_tls(spec: GatewaySpec) -> bool:
    """Return whether the Ingress speaks HTTPS."""
    return spec.ingress.tls is not None and spec.ingress.tls.enabled


def _rule(host: IngressHost, name: str) -> Json:
    # By name, so that it can be no other port than that of the Service.
    backend = {"service": {"name": name, "port": {"name": "http"}}}
    paths = host.paths or (IngressPath("/"),)
    entries = [{"path": one.path, "pathType": one.path_type, "backend": backend} for one in paths]
    return {"host": host.host, "http": {"paths": entries}}


def _tls_entries(spec: GatewaySpec, name: str) -> list[Json]:
    if not has_tls(spec):
        return []
    tls: IngressTls | None = spec.ingress.tls
    assert tls, "has_tls says so"
    named = {host for entry in tls.config for host in entry.hosts}
    left = [host.host for host in hosts(spec) if host.host not in named]
    rest = [{"secretName": tls.secret_name or f"{name}-tls", "hosts": left}] if left else []
    return [*rest, *(without_empty({"secretName": one.secret_name, "hosts": list(one.hosts)}) for one in tls.config)]


def _annotations(spec: GatewaySpec) -> dict[str, str]:
    block = spec.ingress
    issuer = {ISSUER: block.tls.issuer} if has_tls(spec) and block.tls and block.tls.issuer else {}
    return {**issuer, **(_nginx(spec) if (block.class_name or INGRESS_CLASS) == _NGINX else {}), **block.annotations}


def _nginx(spec: GatewaySpec) -> dict[str, str]:
    redirect = {f"{_NGINX_PREFIX}/{name}": "true" for name in ("ssl-redirect", "force-ssl-redirect")}
    protocol = "HTTPS" if spec.server.tls.enabled else "HTTP"
    return {**(redirect if has_tls(spec) else {}), f"{_NGINX_PREFIX}/backend-protocol": protocol}
