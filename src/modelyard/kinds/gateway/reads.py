"""The reads of a Gateway: its children, what its spec names, the services and tool servers it finds, and its check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.checks.gateway_models import GatewayModels
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.resources import DEPLOYMENT, POD, SERVICE
from modelyard.kinds.contract import Asked, Owned
from modelyard.kinds.gateway import config, mcp_servers, selected
from modelyard.kinds.gateway.naming import GATEWAY, MODELS, service_port
from modelyard.kinds.gateway.plan import CHILDREN
from modelyard.kinds.gateway.providers import KNOWN, SELECTED
from modelyard.kinds.shared import workloads
from modelyard.kinds.shared.service_refs import read_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.gateway.api import GatewaySpec

OWN_DEPLOYMENT = Owned(DEPLOYMENT, GATEWAY)
OWN_SERVICE = Owned(SERVICE, GATEWAY)
OWN_PODS = Owned(POD, GATEWAY)
PROXY_DEPLOYMENT = Owned(DEPLOYMENT, MODELS)
PROXY_PODS = Owned(POD, MODELS)


def reads(gateway: Object[GatewaySpec], seen: Seen) -> Iterator[Read]:
    """Name everything that decision, plan and status depend on."""
    for resource in CHILDREN:
        yield Owned(resource)
    yield OWN_DEPLOYMENT
    yield OWN_SERVICE
    yield PROXY_DEPLOYMENT
    yield PROXY_PODS
    yield OWN_PODS
    for source in config.sources(gateway.spec):
        yield source.ref.read
    for provider in gateway.spec.providers:
        if provider.enabled and provider.service_ref:
            yield read_service(provider.service_ref)
    yield from selected.reads(gateway)
    if found := mcp_servers.discovered(gateway):
        yield found
    if question := models_check(gateway, seen):
        yield question


def checked_template(gateway: Object[GatewaySpec]) -> str:
    """Return the fingerprint of the pod template that the stored answer was given for; empty: there was none."""
    return str(gateway.before.get("checkedTemplate", ""))


def models_check(gateway: Object[GatewaySpec], seen: Seen) -> Asked | None:
    """Return the check of the gateway; None: pods of an older template, or none, would answer it."""
    rollout = workloads.read_rollout(seen.one(OWN_DEPLOYMENT))
    if not rollout.answers_for(checked_template(gateway)):
        return None
    spec, meta, certificate = gateway.spec, gateway.meta, config.certificate_ref(gateway.spec)
    return Asked(
        GatewayModels(
            service=ServiceAddress(meta.namespace, meta.name, service_port(spec), _ip(seen.one(OWN_SERVICE))),
            providers=_asked_providers(spec),
            template=rollout.template,
            offered=0 if spec.auth.enabled else selected.offered(gateway, seen),
            needs_token=spec.auth.enabled,
            trust=certificate.name if spec.server.tls.enabled else "",
            certificate=certificate.key,
        )
    )


def _asked_providers(spec: GatewaySpec) -> tuple[str, ...]:
    named = {provider.name.lower() for provider in spec.providers if provider.enabled}
    return tuple(sorted((named | {SELECTED} if spec.service_selector else named) & KNOWN))


def _ip(service: Stored | None) -> str:
    return str(service.spec.get("clusterIP", "")) if service else ""
