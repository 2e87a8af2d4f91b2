"""The labels of children and pods, and the selector of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core import names

if TYPE_CHECKING:
    from modelyard.core.resources import Resource


def common(resource: Resource, name: str) -> dict[str, str]:
    """Return the labels of everything that one object creates.

    `app` is what the original operators set, and dashboards of users select by it. The watches select by the others,
    so that objects which are not ours are never sent to us.
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
    """Return the selector of pods. It must never change: the selector of a Deployment is immutable."""
    return {"app": names.short(name)}
