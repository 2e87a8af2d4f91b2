"""The CRD of a kind, around its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from modelyard.manifests.crd import crd
from modelyard.manifests.schema import SchemaError
from tests.manifests.toys import TOY, Wheels

if TYPE_CHECKING:
    from modelyard.core.objects import Json
    from modelyard.kinds.contract import Kind

RULES = "x-kubernetes-validations"


def version(kind: Kind) -> Json:
    (only,) = crd(kind)["spec"]["versions"]
    return only


def root(kind: Kind) -> Json:
    return version(kind)["schema"]["openAPIV3Schema"]


def test_names_follow_the_resource():
    body = crd(TOY)
    assert body["metadata"] == {"name": "toys.toys.example.com"}
    assert body["spec"]["names"] == {
        "kind": "Toy", "listKind": "ToyList", "plural": "toys", "singular": "toy",
        "shortNames": ["ty"], "categories": ["all-toys"],
    }  # fmt: skip
    assert body["spec"]["scope"] == "Namespaced"


def test_a_kind_of_the_whole_cluster_says_so():
    assert crd(replace(TOY, resource=replace(TOY.resource, namespaced=False)))["spec"]["scope"] == "Cluster"


def test_age_is_the_last_column_and_wide_ones_are_shown_on_request():
    assert version(TOY)["additionalPrinterColumns"] == [
        {"name": "READY", "type": "boolean", "jsonPath": ".status.ready"},
        {"name": "LOUD", "type": "boolean", "jsonPath": ".spec.loud", "priority": 1},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def test_the_one_version_is_served_and_stored_with_a_status_of_its_own():
    only = version(TOY)
    assert (only["name"], only["served"], only["storage"]) == ("v1", True, True)
    assert only["subresources"] == {"status": {}}


def test_a_rule_stands_at_its_field():
    fields = root(TOY)["properties"]["spec"]["properties"]
    assert fields["weight"][RULES] == [{"rule": "self < 100", "message": "spec.weight must be less than 100"}]
    assert fields["names"][RULES] == [{"rule": "self.all(name, name != 'x')", "message": "x is no name"}]


def test_a_rule_between_fields_stands_above_them_and_points_at_one():
    assert root(TOY)["properties"]["spec"][RULES] == [
        {"rule": "!self.loud || has(self.owner)", "message": "loud toys need an owner", "fieldPath": ".owner"}
    ]


def test_a_rule_about_the_whole_object_is_asked_once():
    assert root(TOY)[RULES] == [
        {
            "rule": "oldSelf.hasValue() || (self.metadata.name != 'gun')",
            "optionalOldSelf": True,
            "message": "a gun is no toy",
            "fieldPath": ".metadata.name",
        }
    ]


def test_a_rule_about_a_field_that_is_not_there_is_refused():
    rule = replace(TOY.rules[0], field="spec.wings.span")
    with pytest.raises(SchemaError, match="wings"):
        crd(replace(TOY, rules=(rule,)))


def test_a_kind_without_rules_has_none():
    assert RULES not in str(crd(replace(TOY, rules=())))


def test_a_spec_with_a_required_field_is_required():
    assert root(TOY)["required"] == ["spec"]
    assert "default" not in root(TOY)["properties"]["spec"]


def test_a_spec_without_required_fields_may_be_left_out_and_still_has_its_defaults():
    optional = root(replace(TOY, spec=Wheels, rules=()))
    assert "required" not in optional
    assert optional["properties"]["spec"]["default"] == {}


def test_the_kind_is_described_by_its_spec():
    assert root(TOY)["description"] == "A toy for the generators."
