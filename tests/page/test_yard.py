"""What a user is told of resources that cannot be followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core.resources import POD
from modelyard.kinds import ALL
from modelyard.kube.errors import Forbidden, NotFound, Unavailable
from modelyard.page.yard import Yard

if TYPE_CHECKING:
    from modelyard.kube.errors import KubeError

RESOURCES = (*(kind.resource for kind in ALL), POD)
AWAY = Unavailable(0, "NotReached", "the API server cannot be reached")


def yard(error: KubeError | None, *but: tuple[str, KubeError]) -> Yard:
    """A yard of which each resource has this trouble, but for some kinds."""
    client: Any = None
    made, others = Yard(client), dict(but)
    for resource in RESOURCES:
        made.took(resource, others.get(resource.kind, error))
    return made


def test_an_api_server_that_is_away_is_one_line() -> None:
    assert yard(AWAY).troubles() == ["everything: the API server cannot be reached"]


def test_what_has_the_same_cause_shares_a_line() -> None:
    forbidden, absent = Forbidden(403, "Forbidden", ""), NotFound(404, "", "")
    kinds = "mcps.core.inference-gateway.com, models.inference.llmkube.dev"
    assert yard(None, ("Model", absent), ("MCP", absent), ("Pod", forbidden)).troubles() == [
        f"{kinds}: not served by the cluster; install Modelyard with `modelyard install`",
        "pods: you lack the right to list and watch; ask for it, or name a namespace with -n",
    ]


def test_what_can_be_followed_again_is_no_trouble() -> None:
    found = yard(AWAY)
    for resource in RESOURCES:
        found.took(resource, None)
    assert (found.troubles(), found.is_synced) == ([], True)
