"""How the operator of a cluster is started, as its Deployment states it. `plan --live` and `cache` act as it would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core.resources import DEPLOYMENT, Key
from modelyard.kube.errors import Forbidden, NotFound
from modelyard.manifests.rbac import NAME, NAMESPACE

if TYPE_CHECKING:
    from modelyard.cluster.session import Session
    from modelyard.core.objects import Json


class Operator(Struct, frozen=True):
    """The command line and the environment of the operator that serves a cluster, as its Deployment states them."""

    arguments: tuple[str, ...]
    environment: dict[str, str]


async def find_operator(session: Session) -> Operator | None:
    """Return how the operator of the cluster is started; None: it is not installed, or may not be looked at."""
    try:
        stored = await session.client.get(DEPLOYMENT, Key(NAMESPACE, NAME))
    except (NotFound, Forbidden):
        return None
    container: Json = next(iter(stored.spec["template"]["spec"]["containers"]), {})
    environment = {one["name"]: one["value"] for one in container.get("env", ()) if one.get("value")}
    return Operator(tuple(container.get("args", ())), environment)
