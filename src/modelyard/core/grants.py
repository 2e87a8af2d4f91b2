"""RBAC rights as values: kinds and checks declare them, `manifests/rbac.py` makes rules of a Role of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from modelyard.core.resources import Resource


class Grant(NamedTuple):
    """Verbs on a resource, or on a subresource of it such as `log`; empty: on the resource itself."""

    resource: Resource
    subresource: str
    verbs: tuple[str, ...]
