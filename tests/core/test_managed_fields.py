"""Field ownership: what is turned into an apply of ours, and what is left to others."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.managed_fields import as_applied

if TYPE_CHECKING:
    from modelyard.core.objects import Json


def entry(manager: str, operation: str = "Update", fields: Json | None = None, **more: Any) -> Json:
    return {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": fields or {}, **more}


POSTED: Json = {
    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
    "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {}}},
}
TURNED: Json = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:template": {"f:spec": {}}}}


def test_what_we_posted_becomes_ours_to_apply_without_the_number_of_replicas():
    entries = [entry("modelyard", fields=deepcopy(POSTED), time="2026-01-01T00:00:00Z")]
    assert as_applied(entries, takeover=False) == [
        entry("modelyard", "Apply", TURNED, time="2026-01-01T00:00:00Z"),
    ]


def test_nothing_changes_when_there_is_no_update_of_ours():
    entries = [entry("modelyard", "Apply", {"f:spec": {"f:replicas": {}}}), entry("kubectl-edit")]
    assert as_applied(entries, takeover=False) is None


def test_an_update_joins_the_apply_that_is_there_already():
    entries = [
        entry("modelyard", "Apply", {"f:spec": {"f:a": {}, "f:both": {"f:x": {}}}}),
        entry("modelyard", fields={"f:spec": {"f:b": {}, "f:both": {"f:y": {}}, "f:replicas": {}}}),
    ]
    assert as_applied(entries, takeover=False) == [
        entry("modelyard", "Apply", {"f:spec": {"f:a": {}, "f:b": {}, "f:both": {"f:x": {}, "f:y": {}}}})
    ]


@pytest.mark.parametrize("manager", ["kubectl", "kubectl-client-side-apply", "kube-controller-manager", "kubelet"])
@pytest.mark.parametrize("takeover", [False, True])
def test_entries_of_people_and_of_kubernetes_itself_are_left_alone(manager: str, takeover: bool):
    foreign = entry(manager, fields={"f:spec": {"f:paused": {}}})
    assert as_applied([foreign], takeover=takeover) is None
    found = as_applied([foreign, entry("modelyard", fields=deepcopy(POSTED))], takeover=takeover)
    assert found is not None
    assert found[0] == foreign


def test_updates_of_an_earlier_operator_become_ours_when_we_take_over():
    entries = [entry("manager", fields={"f:spec": {"f:template": {"f:old": {}}, "f:replicas": {}}})]
    assert as_applied(entries, takeover=False) is None
    assert as_applied(entries, takeover=True) == [
        entry("modelyard", "Apply", {"f:spec": {"f:template": {"f:old": {}}}}),
    ]


def test_what_was_written_to_a_subresource_is_left_alone():
    status = entry("modelyard", fields={"f:status": {}}, subresource="status")
    scale = entry("manager", fields={"f:spec": {"f:replicas": {}}}, subresource="scale")
    assert as_applied([status, scale], takeover=True) is None


def test_applies_of_others_are_left_alone():
    foreign = entry("argocd", "Apply", {"f:metadata": {"f:labels": {"f:team": {}}}})
    assert as_applied([foreign], takeover=True) is None
