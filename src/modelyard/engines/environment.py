"""Environment variables of engines, as Kubernetes takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelyard.engines.contract import Json


def plain(name: str, value: str) -> Json:
    """Return a variable with a value that is no secret."""
    return {"name": name, "value": value}


def secret(name: str, reference: Json | None) -> tuple[Json, ...]:
    """Return a variable whose value the kubelet takes from a Secret; nothing without a reference."""
    return ({"name": name, "valueFrom": {"secretKeyRef": reference}},) if reference else ()
