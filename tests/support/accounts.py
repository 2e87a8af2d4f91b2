"""Service accounts for tests: tokens pass a proxy, and the audit log tells them apart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.local.controlplane import ControlPlane

_SECONDS = 10.0
_RBAC = "rbac.authorization.k8s.io"


async def powerful_account(controlplane: ControlPlane, namespace: str, name: str) -> Path:
    """Create a service account that may do everything, and return its kubeconfig."""
    admin = controlplane.admin
    await admin.ensure(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    binding = {
        "metadata": {"name": f"{namespace}-{name}"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
    }
    await admin.ensure(f"/apis/{_RBAC}/v1/clusterrolebindings", binding)
    await _until_allowed(controlplane, f"system:serviceaccount:{namespace}:{name}")
    return await controlplane.service_account_kubeconfig(namespace, name)


async def _until_allowed(controlplane: ControlPlane, user: str) -> None:
    # The API server follows its own role bindings by a watch, a moment behind.
    everything = {"verb": "*", "group": "*", "resource": "*"}
    review = {"spec": {"user": user, "resourceAttributes": everything}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    async with asyncio.timeout(_SECONDS):
        while not (await controlplane.admin.create(path, review))["status"]["allowed"]:
            await asyncio.sleep(0.02)
