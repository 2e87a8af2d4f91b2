"""`modelyard install` and `uninstall`: the objects of `deploy/install.yaml`, applied and removed.

Installing is server-side apply of what this version generates, so it is also the upgrade. Uninstalling keeps what took
time to make: definitions with all objects, and claims with weights, unless the user names them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.cluster.failures import NothingFound
from modelyard.cluster.operator import USUAL, find_deployments, is_one_machine, release_of
from modelyard.cluster.output import Output, encoded, table
from modelyard.cluster.session import for_each
from modelyard.core.errors import ModelyardError
from modelyard.core.objects import Stored
from modelyard.core.resources import DEPLOYMENT, PRIORITY_CLASS, SERVICE_ACCOUNT, VOLUME_CLAIM, Key, Resource
from modelyard.kinds import ALL
from modelyard.kube.errors import Conflict, NotFound, TooManyRequests
from modelyard.local.up.apply import apply
from modelyard.local.up.install import is_served
from modelyard.manifests.install import installation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.cluster.session import Session

_RBAC: Final = "rbac.authorization.k8s.io"
_DEFINITION: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
_NAMESPACE: Final = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
_RESOURCES: Final = {
    one.kind: one
    for one in (
        _NAMESPACE,
        SERVICE_ACCOUNT,
        Resource(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False),
        Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
        Resource(_RBAC, "v1", "Role", "roles"),
        Resource(_RBAC, "v1", "RoleBinding", "rolebindings"),
        _DEFINITION,
        PRIORITY_CLASS,
        DEPLOYMENT,
        Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    )
}
_KEPT: Final = frozenset({_NAMESPACE, _DEFINITION, PRIORITY_CLASS})
"""What uninstalling leaves, unless definitions are named: running pods need their priority class, too."""
_CACHES: Final = "app.kubernetes.io/component=model-cache"
_SERVED_SECONDS: Final = 60.0
_GONE_SECONDS: Final = 180.0
_WAIT: Final = 0.2


class NotOurs(ModelyardError):
    """The installation belongs to a release of Helm, or to a `modelyard up`."""


class Step(Struct, frozen=True):
    """What was done with one object."""

    kind: str
    namespace: str
    name: str
    action: str
    """created, changed, unchanged, deleted or kept."""


class Steps(Struct, frozen=True):
    """What `modelyard install -o json` and `uninstall -o json` print."""

    steps: tuple[Step, ...]


class Data(Struct, frozen=True):
    """What an uninstallation would destroy for good."""

    objects: tuple[Stored, ...] = ()
    claims: tuple[Stored, ...] = ()

    @property
    def lines(self) -> list[str]:
        """A line for each object and each claim."""
        return [f"{item.resource.kind} {item.meta.key}" for item in (*self.objects, *self.claims)]


async def install(session: Session, image: str) -> Steps:
    """Apply all objects of this version, and return when the API server serves all kinds."""
    await _refuse_others(session, beside=True)
    steps = [await _applied(session, body) for body in installation(ALL, image)]
    await _until_served(session)
    return Steps(tuple(steps))


async def _until_served(session: Session) -> None:
    try:
        async with asyncio.timeout(_SERVED_SECONDS):
            while not await is_served(session.client):  # noqa: ASYNC110 - the API server sends no event for it
                await asyncio.sleep(_WAIT)
    except TimeoutError:
        what = f"the API server does not serve all kinds after {_SERVED_SECONDS:.0f} s"
        raise ModelyardError(
            f"{what}; `kubectl get crds` shows definitions that are being deleted or refused"
        ) from None


async def _refuse_others(session: Session, *, beside: bool) -> None:
    """Refuse what is not installed by us. `beside`: also what another operator has, although there is one of ours."""
    found = {one.meta.key: one for one in await find_deployments(session)}
    if (own := found.get(USUAL)) and not release_of(own):
        found = {key: one for key, one in found.items() if beside and key != USUAL}
    for key, one in found.items():
        if release := release_of(one):
            use = f"use `helm upgrade {release}` or `helm uninstall {release}`"
            raise NotOurs(f"Modelyard was installed here by Helm; {use}")
        raise NotOurs(f"the Deployment {key} runs an operator already; upgrade or delete it as it was installed")
    if await is_one_machine(session):
        raise NotOurs("a `modelyard up` runs here and has its own operator; `modelyard down --purge` removes it")


async def _find(session: Session, resource: Resource, key: Key) -> Stored | None:
    try:
        return await session.client.get(resource, key)
    except NotFound:
        return None


async def _applied(session: Session, body: dict[str, object]) -> Step:
    resource, key = _place(body)
    before = await _find(session, resource, key)
    after = await apply(session.client, resource, body)
    same = before is not None and before.meta.resource_version == after.meta.resource_version
    return Step(resource.kind, key.namespace, key.name, "unchanged" if same else "changed" if before else "created")


def _place(body: dict[str, object]) -> tuple[Resource, Key]:
    resource, meta = _RESOURCES[str(body["kind"])], body["metadata"]
    assert isinstance(meta, dict)
    return resource, Key(str(meta.get("namespace", "")), str(meta["name"]))


async def find_data(session: Session, *, definitions: bool, weights: bool) -> Data:
    """Return the objects and the claims that an uninstallation with these choices destroys."""

    async def listed(resource: Resource) -> list[Stored]:
        try:
            return await session.client.list_all(resource)
        except NotFound:
            return []

    found = await for_each(listed, [kind.resource for kind in ALL]) if definitions else []
    claims = await session.client.list_all(VOLUME_CLAIM, selector=_CACHES) if weights else []
    return Data(tuple(item for items in found for item in items), tuple(claims))


async def uninstall(session: Session, data: Data, *, definitions: bool) -> Steps:
    """Remove the operator; with `definitions` also all kinds and objects, which the operator cleans up after first.

    NothingFound: nothing of an installation is there.
    """
    await _refuse_others(session, beside=False)
    bodies = list(reversed(installation(ALL)))
    if not [one for one in bodies if await _find(session, *_place(one))]:
        raise NothingFound("Modelyard is not installed on this cluster; there is nothing to uninstall")
    steps = await _deleted(session, data.objects)
    await _until_gone(session, data.objects)
    steps += await _deleted(session, data.claims)
    for resource, key in map(_place, bodies):
        found = await _find(session, resource, key)
        if found and (definitions or resource not in _KEPT):
            steps += await _deleted(session, [found])
        elif found:
            steps.append(Step(resource.kind, key.namespace, key.name, "kept"))
    if definitions:
        await _until_undefined(session)
    return Steps(tuple(steps))


async def _until_undefined(session: Session) -> None:
    """Wait until no kind is served any more: what is installed right then would be deleted with the old definitions."""
    try:
        async with asyncio.timeout(_SERVED_SECONDS):
            while any([await _is_listed(session, kind.resource) for kind in ALL]):  # noqa: ASYNC110 - as above
                await asyncio.sleep(_WAIT)
    except TimeoutError:
        what = f"the API server still serves a kind after {_SERVED_SECONDS:.0f} s"
        raise ModelyardError(f"{what}; `kubectl get crds` shows the definitions that are left") from None


async def _is_listed(session: Session, resource: Resource) -> bool:
    # 429: so it answers while the storage of a definition comes or goes.
    with suppress(TooManyRequests):
        try:
            await session.client.list_all(resource)
        except NotFound:
            return False
    return True


async def _deleted(session: Session, items: Iterable[Stored]) -> list[Step]:
    steps = []
    for item in items:
        try:
            await session.client.delete(item.resource, item.meta.key, item.meta.uid)
        except (NotFound, Conflict):
            # It is gone by itself, or another one of its name is not what was shown to the user.
            continue
        steps.append(Step(item.resource.kind, item.meta.namespace, item.meta.name, "deleted"))
    return steps


async def _until_gone(session: Session, items: Iterable[Stored]) -> None:
    """Wait for finalizers. Without the operator, which goes next, they would keep their objects for ever."""
    left = list(items)
    try:
        async with asyncio.timeout(_GONE_SECONDS):
            while left := [item for item in left if await _find(session, item.resource, item.meta.key)]:  # noqa: ASYNC110
                await asyncio.sleep(_WAIT)
    except TimeoutError:
        names = ", ".join(f"{item.resource.kind} {item.meta.key}" for item in left[:5])
        what = f"{len(left)} objects are not cleaned up yet, such as {names}"
        raise ModelyardError(f"{what}; see whether the operator runs, and uninstall again") from None


def printed(found: Steps, output: Output) -> str:
    """Return steps as they are printed. The table leaves out what is unchanged, wide does not."""
    if output.is_for_programs:
        return encoded(found, output)
    shown = [one for one in found.steps if output is Output.WIDE or one.action != "unchanged"]
    rows = [(one.kind, one.namespace, one.name, one.action) for one in shown]
    return table(("KIND", "NAMESPACE", "NAME", "ACTION"), rows) if rows else ""
