"""Every example for a cluster is accepted there, and its pods run under Pod Security `restricted`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from modelyard.kinds import ALL
from tests.support.mcps import condition
from tests.support.operators import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl
    from tests.support.recorder import Recorder

Json = dict[str, Any]

ON_A_CLUSTER = sorted(path for path in (ROOT / "examples").glob("*.yaml") if "source: .." not in path.read_text())
"""All examples but those with a file beside them, which are for one machine; tests/e2e runs these."""


@pytest.mark.parametrize("example", ON_A_CLUSTER, ids=lambda path: path.name)
async def test_every_example_is_accepted_and_its_pods_pass_restricted(
    cluster: Cluster,
    namespace: str,
    recorder: Recorder,
    kubectl: Kubectl,
    standing_operator: object,
    example: Path,
) -> None:
    resources = {kind.resource.kind: kind.resource for kind in ALL}
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await cluster.controlplane.admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    await kubectl("apply", "-n", namespace, "-f", str(example))
    for body in yaml.safe_load_all(example.read_text()):
        if resource := resources.get(body["kind"]):
            await recorder.wait_for(resource, namespace, body["metadata"]["name"], has_its_pods)


def has_its_pods(item: Json | None) -> bool:
    """Whether its pods were created, by what each kind says of them. One that waits for a GPU was, too."""
    said = (condition(item, kind).get("status") for kind in ("Available", "PrimaryReady"))
    return "True" in said or condition(item, "Ready").get("reason") == "Unschedulable"
