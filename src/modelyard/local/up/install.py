"""Install what the operator needs: CRDs, roles and priority classes, the same objects as in `deploy/`.

`machine` calls it at every start, so that a newer Modelyard brings its newer CRDs along.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from modelyard.core.resources import PRIORITY_CLASS, Resource
from modelyard.kinds import ALL
from modelyard.kube.errors import KubeError
from modelyard.local.up.apply import apply
from modelyard.manifests import operator, rbac
from modelyard.manifests.crd import crd

if TYPE_CHECKING:
    from modelyard.core.objects import Json
    from modelyard.kube.client import Client

_RBAC: Final = "rbac.authorization.k8s.io"
_RESOURCES: Final = {
    each.kind: each
    for each in (
        Resource("", "v1", "Namespace", "namespaces", namespaced=False),
        Resource("", "v1", "ServiceAccount", "serviceaccounts"),
        Resource(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False),
        Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
        Resource(_RBAC, "v1", "Role", "roles"),
        Resource(_RBAC, "v1", "RoleBinding", "rolebindings"),
        Resource(
            "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
        ),
        PRIORITY_CLASS,
    )
}
_SERVED_SECONDS: Final = 60.0
_WAIT: Final = 0.05


async def install(client: Client) -> None:
    """Apply everything, and return when the API server serves all our kinds."""
    # First: the service account of the operator is in this namespace.
    await _apply(client, operator.namespace())
    async with asyncio.TaskGroup() as group:
        for body in (*map(crd, ALL), *rbac.for_cluster(ALL), *operator.priority_classes()):
            group.create_task(_apply(client, body))
    async with asyncio.timeout(_SERVED_SECONDS):
        while not await is_served(client):  # noqa: ASYNC110 - the API server sends no event for it
            await asyncio.sleep(_WAIT)


async def _apply(client: Client, body: Json) -> None:
    await apply(client, _RESOURCES[body["kind"]], body)


async def is_served(client: Client) -> bool:
    """Whether the user of a client can list all our kinds."""
    # A new CRD is unknown for a moment, and then its storage answers 429. A new role takes a moment, too.
    try:
        for kind in ALL:
            await client.list_page(kind.resource, limit=1)
    except KubeError:
        return False
    return True
