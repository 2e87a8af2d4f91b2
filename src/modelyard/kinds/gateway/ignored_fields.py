"""The condition FieldsIgnored: which fields of a Gateway have no effect, or not the expected one, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.conditions import FIELDS_IGNORED, Condition, condition
from modelyard.core.reasons import Reason
from modelyard.core.words import join_words
from modelyard.kinds.gateway.blocks import HealthCheck
from modelyard.kinds.gateway.exposure import ApiGateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.gateway.api import GatewaySpec
    from modelyard.kinds.gateway.blocks import Telemetry
    from modelyard.kinds.gateway.decide import GatewayDecision
    from modelyard.kinds.gateway.exposure import GatewayApi


def fields_ignored(spec: GatewaySpec, decision: GatewayDecision) -> Condition:
    """Return the condition about fields without effect. The gateway serves all the same."""
    if message := ". ".join(_ignored(spec, decision)):
        return condition(FIELDS_IGNORED, True, Reason.FIELD_IGNORED, message)
    return condition(FIELDS_IGNORED, False, Reason.ALL_FIELDS_USED, "all fields that are set have an effect")


def _ignored(spec: GatewaySpec, decision: GatewayDecision) -> Iterator[str]:
    if unknown := sorted({one.name for one in decision.providers if not one.known}):
        names = ", ".join(unknown)
        yield f"spec.providers: the gateway knows no provider {names}; its variables are passed on, and offer no model"
    if unused := [field for field, is_set in _telemetry(spec.telemetry).items() if is_set]:
        yield f"{' and '.join(unused)} without effect: the gateway serves its metrics, sends none and receives none"
    if unused := _of_parent(spec.gateway_api):
        yield f"spec.gatewayAPI.gateway: {join_words(unused)} without effect: parentRefs name a Gateway that exists"
    checks = [server.health_check for server in spec.mcp.servers] if spec.mcp.enabled else []
    if any(check.path != HealthCheck().path for check in checks):
        yield "spec.mcp.servers: healthCheck.path has no effect, because the gateway asks by MCP; remove it"
    if len({(check.enabled, check.interval) for check in checks}) > 1:
        yield "spec.mcp.servers: the gateway has one health check for all servers; give all of them the same"


def _of_parent(block: GatewayApi) -> list[str]:
    """Return the fields about the Gateway that would be created if the route did not attach to another one."""
    if not block.enabled or not block.gateway.parent_refs:
        return []
    asked, default = block.gateway, ApiGateway()
    found = {
        "gatewayClassName": asked.gateway_class_name not in ("", default.gateway_class_name),
        "tls.issuer": bool(asked.tls.issuer),
        "tls.secretName": bool(asked.tls.secret_name),
    }
    return [field for field, is_set in found.items() if is_set]


def _telemetry(block: Telemetry) -> dict[str, bool]:
    if not block.enabled:
        return {}
    exporter = block.metrics.exporter
    return {
        "spec.telemetry.metrics.exporter.otlp": bool(exporter and exporter.otlp),
        "spec.telemetry.metrics.exporter.prometheus": bool(exporter and exporter.prometheus),
        "spec.telemetry.receiver.enabled": block.receiver.enabled,
    }
