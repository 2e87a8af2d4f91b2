"""Kubernetes' own types, from the published document into a CRD."""

from __future__ import annotations

import re
from typing import Any

import pytest

from modelyard.core.quantities import quantity
from modelyard.manifests.embedded import embedded
from modelyard.manifests.openapi import embedded_names, extract, text
from modelyard.manifests.schema import QUANTITY_PATTERN, SchemaError
from tests.manifests.toys import TOY

REF = "#/definitions/"


def converted(**definitions: Any) -> dict[str, Any]:
    return embedded(next(iter(definitions)), definitions)


def test_references_are_replaced_and_the_description_beside_them_wins():
    box = {"type": "object", "properties": {"lid": {"$ref": REF + "Lid", "description": "Its lid."}}}
    lid = {"type": "string", "description": "A lid."}
    assert converted(Box=box, Lid=lid)["properties"]["lid"] == {"type": "string", "description": "Its lid."}


def test_quantities_and_ports_may_be_numbers_or_text():
    quantity_name = "io.k8s.apimachinery.pkg.api.resource.Quantity"
    port_name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
    box = {"type": "object", "properties": {"cpu": {"$ref": REF + quantity_name}, "port": {"$ref": REF + port_name}}}
    either = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert converted(Box=box)["properties"] == {"cpu": {**either, "pattern": QUANTITY_PATTERN}, "port": either}


def test_keywords_that_crds_do_not_know_are_left_out():
    items = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    merged = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    patched = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
    assert converted(Boxes={"type": "array", "items": items, **merged, **patched}) == {
        "type": "array", "items": items, **merged,
    }  # fmt: skip


def test_a_list_whose_key_may_be_absent_is_replaced_as_a_whole():
    items = {"type": "object", "properties": {"name": {"type": "string"}}}
    boxes = {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    assert converted(Boxes=boxes) == {"type": "array", "items": items, "x-kubernetes-list-type": "atomic"}


def test_a_free_form_object_keeps_its_content():
    assert converted(Box={"type": "object"}) == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_a_type_that_holds_itself_is_refused():
    with pytest.raises(SchemaError, match="Box: refers to itself"):
        converted(Box={"type": "object", "properties": {"inner": {"$ref": REF + "Box"}}})


def test_a_type_that_was_never_generated_names_the_remedy():
    with pytest.raises(SchemaError, match=r"Box: is not in kubernetes\.json; run `make generate`"):
        embedded("Box", {})


def test_only_what_the_kinds_embed_is_kept_with_all_it_refers_to():
    names = embedded_names([TOY])
    assert names == {"io.k8s.api.core.v1.EnvVar", "io.k8s.api.core.v1.ResourceRequirements"}
    document = {
        "info": {"version": "v9"},
        "definitions": {
            "Box": {"properties": {"lids": {"items": {"$ref": REF + "Lid"}}, "again": {"$ref": REF + "Lid"}}},
            "Lid": {"type": "string"},
            "Table": {"type": "string"},
        },
    }
    kept = extract(document, ["Box"])
    assert kept.version == "v9"
    assert sorted(kept.definitions) == ["Box", "Lid"]
    assert text(kept) == text(extract(document, ["Lid", "Box"]))


def test_a_property_that_is_called_ref_is_no_reference():
    document = {"info": {"version": ""}, "definitions": {"Box": {"properties": {"$ref": {"type": "string"}}}}}
    assert sorted(extract(document, ["Box"]).definitions) == ["Box"]


@pytest.mark.parametrize("value", ["1", "0.5", ".5", "5.", "100m", "2Gi", "1e3", "1E-2", "-1", "+3Ki"])
def test_the_pattern_of_quantities_takes_what_we_can_read(value: str):
    assert re.search(QUANTITY_PATTERN, value)
    quantity(value)


@pytest.mark.parametrize("value", ["", "lots", "1.2.3", "1 Gi", "1GB", "Gi", "1e", "."])
def test_the_pattern_of_quantities_refuses_what_we_cannot_read(value: str):
    assert not re.search(QUANTITY_PATTERN, value)
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(value)
