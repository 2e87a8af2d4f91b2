"""How the operator of a cluster is started. `plan --live` and `cache` act as it would; `doctor` looks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core.resources import DEPLOYMENT, LEASE, Key
from modelyard.kube.errors import Forbidden, NotFound
from modelyard.local.up.operator_flags import FLAGS, IDENTITY
from modelyard.manifests.rbac import NAME, NAMESPACE

if TYPE_CHECKING:
    from modelyard.cluster.session import Session
    from modelyard.core.objects import Json


class Operator(Struct, frozen=True):
    """The command line and the environment of the operator that serves a cluster."""

    arguments: tuple[str, ...]
    environment: dict[str, str]


async def find_operator(session: Session) -> Operator | None:
    """Return how the operator of the cluster is started; None: it is not installed, or may not be looked at."""
    try:
        stored = await session.client.get(DEPLOYMENT, Key(NAMESPACE, NAME))
    except NotFound:
        return Operator(FLAGS, {}) if await is_one_machine(session) else None
    except Forbidden:
        return None
    container: Json = next(iter(stored.spec["template"]["spec"]["containers"]), {})
    environment = {one["name"]: one["value"] for one in container.get("env", ()) if one.get("value")}
    return Operator(tuple(container.get("args", ())), environment)


async def is_one_machine(session: Session) -> bool:
    """Return whether a `modelyard up` serves the cluster: its operator is a process, and not a Deployment."""
    try:
        lease = await session.client.get(LEASE, Key(NAMESPACE, NAME))
    except (NotFound, Forbidden):
        return False
    return lease.spec.get("holderIdentity") == IDENTITY
