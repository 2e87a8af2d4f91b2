"""How the operator of a cluster is started. `plan --live` and `cache` act as it would; `doctor` looks for it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core.resources import DEPLOYMENT, LEASE, Key
from modelyard.engines.flags import value_of
from modelyard.kube.errors import Forbidden, NotFound
from modelyard.local.up.operator_flags import FLAGS, IDENTITY
from modelyard.manifests.rbac import NAME, NAMESPACE

if TYPE_CHECKING:
    from modelyard.cluster.session import Session
    from modelyard.core.objects import Json, Stored

USUAL: Final = Key(NAMESPACE, NAME)
"""The Deployment of `modelyard install`."""
_OPERATORS: Final = f"app.kubernetes.io/name={NAME},app.kubernetes.io/component=operator"


class Operator(Struct, frozen=True):
    """The command line and the environment of the operator that serves a cluster."""

    arguments: tuple[str, ...]
    environment: dict[str, str]

    @property
    def served(self) -> str:
        """The only namespace that it serves; empty: all of them."""
        return value_of(self.arguments, "--namespace") or self.environment.get("MODELYARD_NAMESPACE", "")


async def find_operator(session: Session) -> Operator | None:
    """Return how the operator of the namespace is started; None: it is not installed, or may not be looked at."""
    try:
        found = [started(one) for one in await find_deployments(session)]
    except Forbidden:
        return None
    for served in (session.namespace, ""):
        if serving := [one for one in found if one.served == served]:
            return serving[0]
    return Operator(FLAGS, {}) if await is_one_machine(session) else None


async def find_deployments(session: Session) -> list[Stored]:
    """Return the Deployments of operators. A release of the chart may have any name, in any namespace.

    Forbidden: the user may not even look at the usual one.
    """
    with suppress(NotFound):
        try:
            return await session.client.list_all(DEPLOYMENT, selector=_OPERATORS)
        except Forbidden:
            return [await session.client.get(DEPLOYMENT, USUAL)]
    return []


def started(deployment: Stored) -> Operator:
    """Return how the operator of a Deployment is started."""
    container: Json = next(iter(deployment.spec["template"]["spec"]["containers"]), {})
    environment = {one["name"]: one["value"] for one in container.get("env", ()) if one.get("value")}
    return Operator(tuple(container.get("args", ())), environment)


def release_of(deployment: Stored) -> str:
    """Return the release of Helm that a Deployment belongs to, as flags name it; empty: it belongs to none."""
    release = deployment.meta.annotation("meta.helm.sh/release-name")
    return f"{release} -n {deployment.meta.namespace}" if release else ""


async def is_one_machine(session: Session) -> bool:
    """Return whether a `modelyard up` serves the cluster: its operator is a process, and not a Deployment."""
    try:
        lease = await session.client.get(LEASE, Key(NAMESPACE, NAME))
    except (NotFound, Forbidden):
        return False
    return lease.spec.get("holderIdentity") == IDENTITY
