"""Labels that every child carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core import names

if TYPE_CHECKING:
    from modelyard.core.resources import Resource


def common(resource: Resource, name: str) -> dict[str, str]:
    """Return the labels of everything that one object creates.

    `app` is what the original operators set and what users' dashboards select by; the others are how we find our
    children again without looking at anybody else's.
    """
    kind = resource.kind.lower()
    return {
        "app": names.short(name),
        names.NAME_LABEL: kind,
        names.INSTANCE_LABEL: names.short(name),
        names.MANAGED_BY: names.MANAGER,
        names.KIND_LABEL: kind,
    }


def selector(name: str) -> dict[str, str]:
    """Return what pods are selected by. It can never change: a Deployment's selector is immutable."""
    return {"app": names.short(name)}
