"""The RBAC role of the operator, generated from what kinds and checks declare, instead of kubebuilder's markers.

`make generate` writes it to `deploy/`. Secrets are read one by one, by name: no rule lets the operator list or watch
them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from modelyard.core.grants import Grant
from modelyard.core.resources import EVENT, LEASE, SECRET, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.core.objects import Json
    from modelyard.kinds.contract import Kind

NAME: Final = "modelyard"
NAMESPACE: Final = "modelyard-system"

_FOLLOW: Final = ("list", "watch")
_GROUP: Final = "rbac.authorization.k8s.io"


def rules(kinds: Iterable[Kind]) -> list[Json]:
    """Return the rules for serving these kinds, the fewest that say it, in a stable order."""
    return _merged(_grants(kinds))


def _grants(kinds: Iterable[Kind]) -> list[Grant]:
    return [*(grant for kind in kinds for grant in _of_kind(kind)), Grant(EVENT, "", ("create",))]


def lease_rules() -> list[Json]:
    """Return the rules for electing a leader, in the operator's own namespace."""
    return _merged([Grant(LEASE, "", (*_FOLLOW, "get", "create", "update"))])


def _of_kind(kind: Kind) -> Iterator[Grant]:
    yield Grant(kind.resource, "", _FOLLOW)
    if kind.status is not None:
        yield Grant(kind.resource, "status", ("patch",))
    # Children block the deletion of their owner (blockOwnerDeletion). OwnerReferencesPermissionEnforcement lets only
    # those set that who may update the finalizers of the owner.
    yield Grant(kind.resource, "finalizers", ("update",))
    if kind.finalize is not None:
        yield Grant(kind.resource, "", ("patch",))
    for resource in kind.looks_at:
        yield Grant(resource, "", _read(resource))
    for child in kind.children:
        # Children are followed by their label, but no right can be narrowed to it: Secrets are not.
        yield Grant(child, "", (*(() if child == SECRET else _FOLLOW), "get", "create", "patch"))
        if child.scalable:
            yield Grant(child, "scale", ("patch",))
    for child in kind.creates:
        yield Grant(child, "", (*_FOLLOW, "get", "create"))
    for check in (*kind.asks, *kind.calls):
        yield from check.grants
    for child in kind.deletes:
        yield Grant(child, "", ("delete",))


def _read(resource: Resource) -> tuple[str, ...]:
    return ("get",) if resource.by_name else _FOLLOW


def _merged(grants: Iterable[Grant]) -> list[Json]:
    verbs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for resource, subresource, allowed in grants:
        name = f"{resource.plural}/{subresource}" if subresource else resource.plural
        verbs[resource.group, name].update(allowed)
    together: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, name), allowed_there in verbs.items():
        together[group, tuple(sorted(allowed_there))].append(name)
    rules = ((group, sorted(names), list(allowed)) for (group, allowed), names in together.items())
    return [{"apiGroups": [group], "resources": names, "verbs": allowed} for group, names, allowed in sorted(rules)]


def for_cluster(kinds: Iterable[Kind]) -> list[Json]:
    """Return the account and its roles for serving every namespace."""
    return [
        _account(),
        _role("ClusterRole", NAME, rules(kinds)),
        _binding("ClusterRole", NAME),
        *_leases(),
    ]


def for_door(kind: Kind) -> list[Json]:
    """Return what an operator for the whole cluster needs besides, to serve a kind that is off by default."""
    name = f"{NAME}-door"
    return [_role("ClusterRole", name, rules([kind])), _binding("ClusterRole", name)]


def inside_rules(kinds: Iterable[Kind]) -> list[Json]:
    """Return the rules for serving these kinds in one namespace, without what is in none."""
    return _merged(grant for grant in _grants(kinds) if grant.resource.namespaced)


def for_namespace(kinds: Iterable[Kind], served: str) -> list[Json]:
    """Return the account and its roles for serving one namespace only, and for reading what is in none."""
    kinds = tuple(kinds)
    outside = _merged(grant for grant in _grants(kinds) if not grant.resource.namespaced)
    # Not the name that an operator for the whole cluster uses: one would take the rights of the other.
    reader = f"{NAME}-for-{served}"
    return [
        _account(),
        _role("Role", NAME, inside_rules(kinds), served),
        _binding("Role", NAME, served),
        *([_role("ClusterRole", reader, outside), _binding("ClusterRole", reader)] if outside else []),
        *_leases(),
    ]


def _account() -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": NAMESPACE}}


def _leases() -> list[Json]:
    name = f"{NAME}-leader"
    return [_role("Role", name, lease_rules(), NAMESPACE), _binding("Role", name, NAMESPACE)]


def _role(kind: str, name: str, allowed: list[Json], namespace: str = "") -> Json:
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": _meta(name, namespace), "rules": allowed}


def _binding(role_kind: str, name: str, namespace: str = "") -> Json:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": f"{role_kind}Binding",
        "metadata": _meta(name, namespace),
        "roleRef": {"apiGroup": _GROUP, "kind": role_kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    }


def _meta(name: str, namespace: str) -> Json:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}
