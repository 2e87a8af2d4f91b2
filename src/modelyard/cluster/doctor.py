"""`modelyard doctor`: look over an installation. Each check reads one thing, and none of them stops the others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from modelyard.cluster import checkup
from modelyard.cluster.checkup import Checkup, Finding, State
from modelyard.cluster.failures import may_not
from modelyard.cluster.operator import find_deployments, is_one_machine, release_of, started
from modelyard.cluster.output import Output, encoded, table
from modelyard.cluster.session import for_each
from modelyard.core.image import IMAGE
from modelyard.core.resources import LEASE, NODE, POD, PRIORITY_CLASS, SERVICE, Key, Resource
from modelyard.kinds import ALL
from modelyard.kube import codec
from modelyard.kube.errors import Forbidden, NotFound
from modelyard.manifests import operator, rbac
from modelyard.manifests.crd import crd

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from modelyard.cluster.session import Session
    from modelyard.core.objects import Json, Stored

_RBAC: Final = "rbac.authorization.k8s.io"
_ROLE: Final = Resource(_RBAC, "v1", "Role", "roles")
_CLUSTER_ROLE: Final = Resource(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
_DEFINITION: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
_STORAGE_CLASS: Final = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
_REVIEW: Final = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
_OPTIONAL: Final = (
    ("gateway api", "gateway.networking.k8s.io", "routes of ZerfooInferenceServices and Gateways"),
    ("metrics server", "metrics.k8s.io", "autoscaling by CPU and memory"),
    ("cert-manager", "cert-manager.io", "certificates that Ingresses of Gateways ask for"),
)

Check = tuple[str, "Callable[[Session], Awaitable[list[Finding]]]"]


async def examine(session: Session) -> Checkup:
    """Return all findings about a cluster, in a fixed order. NoCluster: there is none to look at."""
    await session.client.raw("/version")

    async def examined(check: Check) -> list[Finding]:
        title, look = check
        try:
            return await look(session)
        except Forbidden as error:
            return [Finding(title, State.UNKNOWN, may_not(error))]

    return Checkup(tuple(finding for found in await for_each(examined, _CHECKS) for finding in found))


async def _version(session: Session) -> list[Finding]:
    return [checkup.server_version(codec.full(await session.client.raw("/version")))]


async def _definitions(session: Session) -> list[Finding]:
    async def one(body: Json) -> Finding:
        live = await _full(session, _DEFINITION, Key("", body["metadata"]["name"]))
        return checkup.definition(body, live)

    return await for_each(one, [crd(kind) for kind in ALL])


async def _full(session: Session, resource: Resource, key: Key) -> Json | None:
    """Return one object; None: it does not exist."""
    try:
        return await session.client.get_full(resource, key)
    except NotFound:
        return None


async def _operator(session: Session) -> list[Finding]:
    found, here = await _deployments(session), await is_one_machine(session)
    return [checkup.operator(one, IMAGE, is_one_machine=here) for one in found]


async def _deployments(session: Session) -> list[Stored | None]:
    """Return the Deployments of all operators, and None in their place if there are none."""
    return [*await find_deployments(session)] or [None]


async def _leader(session: Session) -> list[Finding]:
    return list(checkup.operators(await session.client.list_all(LEASE), datetime.now(UTC)))


async def _role(session: Session) -> list[Finding]:
    return [await _granted(session, one) for one in await _deployments(session)]


async def _granted(session: Session, deployment: Stored | None) -> Finding:
    """Return whether an operator has its role, which has the name of its Deployment, or that of `deploy/`."""
    served = started(deployment).served if deployment else ""
    resource, wanted = (_ROLE, rbac.inside_rules(ALL)) if served else (_CLUSTER_ROLE, rbac.rules(ALL))
    names = dict.fromkeys((deployment.meta.name if deployment else rbac.NAME, rbac.NAME))
    live = [found for name in names if (found := await _full(session, resource, Key(served, name)))]
    release = release_of(deployment) if deployment else ""
    return checkup.role(wanted, live[0].get("rules") or () if live else None, release)


async def _rights(session: Session) -> list[Finding]:
    async def allowed(ask: tuple[str, Json]) -> tuple[str, bool]:
        what, attributes = ask
        body = {"metadata": {}, "spec": {"resourceAttributes": {"namespace": session.namespace, **attributes}}}
        answer = await session.client.create(_REVIEW, body)
        return what, bool(answer.status.get("allowed"))

    return [checkup.rights(dict(await for_each(allowed, _needed())))]


def _needed() -> Iterable[tuple[str, Json]]:
    """Return what the verbs that only look need, in words and as the API server asks for it."""
    listed: list[tuple[str, Resource, str]] = [("list", kind.resource, "") for kind in ALL]
    more = [("list", POD, ""), ("get", POD, "log"), ("create", SERVICE, "proxy")]
    for verb, resource, part in (*listed, *more):
        attributes: dict[str, Any] = {"verb": verb, "group": resource.group, "resource": resource.plural}
        yield f"{verb} {resource.plural}{f'/{part}' if part else ''}", {**attributes, "subresource": part}


async def _storage(session: Session) -> list[Finding]:
    return [checkup.storage(await session.client.list_all(_STORAGE_CLASS))]


async def _gpus(session: Session) -> list[Finding]:
    return [checkup.gpus(await session.client.list_all(NODE))]


async def _priorities(session: Session) -> list[Finding]:
    there = [one.meta.name for one in await session.client.list_all(PRIORITY_CLASS)]
    return [checkup.priority_classes((one["metadata"]["name"] for one in operator.priority_classes()), there)]


async def _apis(session: Session) -> list[Finding]:
    groups = codec.full(await session.client.raw("/apis")).get("groups", ())
    served = {str(group["name"]) for group in groups}
    return [checkup.optional_api(check, group, served, why) for check, group, why in _OPTIONAL]


_CHECKS: Final[tuple[Check, ...]] = (
    ("kubernetes", _version),
    ("definitions", _definitions),
    ("operator", _operator),
    ("leader", _leader),
    ("role", _role),
    ("your rights", _rights),
    ("storage class", _storage),
    ("gpus", _gpus),
    ("priority classes", _priorities),
    ("optional APIs", _apis),
)


def printed(found: Checkup, output: Output) -> str:
    """Return the findings as they are printed. The table leaves out what is right of the definitions, wide does not."""
    if output.is_for_programs:
        return encoded(found, output)
    shown = found.findings if output is Output.WIDE else _summed(found.findings)
    return table(("CHECK", "STATE", "MESSAGE"), [_cells(one) for one in shown])


def _summed(findings: Iterable[Finding]) -> list[Finding]:
    right = [one for one in findings if one.check.startswith("definition ") and one.state is State.OK]
    rest = [one for one in findings if one not in right]
    told = Finding("definitions", State.OK, f"{len(right)} are as in this version")
    return [*rest[:1], *([told] if right else []), *rest[1:]]


def _cells(one: Finding) -> tuple[str, ...]:
    return one.check, one.state.value, f"{one.message}; {one.remedy}" if one.remedy else one.message
