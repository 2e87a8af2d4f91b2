"""Service accounts for tests: tokens pass a proxy, and the audit log tells them apart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from modelyard.kinds import ALL
from modelyard.local.raw_client import RawClient, RawClientError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from modelyard.core.resources import Resource
    from modelyard.kinds.contract import Kind
    from modelyard.local.controlplane import ControlPlane

_SECONDS = 120.0
"""After a restart of the API server, controllers wait for up to a minute before they try again to follow it."""
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
    everything = {"verb": "*", "group": "*", "resource": "*"}
    await until_allowed(controlplane, f"system:serviceaccount:{namespace}:{name}", everything)
    return await controlplane.service_account_kubeconfig(namespace, name)


async def until_allowed(controlplane: ControlPlane, user: str, what: dict[str, str]) -> None:
    """Wait for a role to count: the API server follows its own role bindings by a watch, a moment behind."""
    review = {"spec": {"user": user, "resourceAttributes": what}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    async with asyncio.timeout(_SECONDS):
        while not (await controlplane.admin.create(path, review))["status"]["allowed"]:
            await asyncio.sleep(0.02)


async def until_answered(admin: RawClient, path: str) -> None:
    """Wait until the API server has what is asked for: the storage of a new definition answers 429 for a moment."""
    try:
        async with asyncio.timeout(_SECONDS):
            while not await admin.answers(path):
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{path} is not answered") from None


async def until_children_are_taken(operator: Path, kinds: Iterable[Kind] = ALL) -> None:
    """Wait until the operator may create children of these kinds.

    Those that block the deletion of their owner are refused until the API server knows the kind of that owner. It reads
    the list of kinds twice a minute, and the first time as soon as anybody creates such a child.
    """
    admin, refused = RawClient(operator), ""
    try:
        async with asyncio.timeout(_SECONDS):
            for kind in kinds:
                while refused := await _refusal(admin, kind.resource):
                    await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(refused) from None
    finally:
        await admin.close()


async def _refusal(admin: RawClient, resource: Resource) -> str:
    """Return why a child of a kind is refused; empty: it is not."""
    owner = {"apiVersion": resource.api_version, "kind": resource.kind, "name": "any", "uid": "any"}
    meta = {"name": "any", "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}
    body = {"metadata": meta, "spec": {"ports": [{"port": 80}]}}
    try:
        await admin.create("/api/v1/namespaces/default/services?dryRun=All", body)
    except RawClientError as error:
        return str(error)
    return ""
