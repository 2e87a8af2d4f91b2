"""Structs as structural schemas."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct, defstruct

from modelyard.core.pod_fields import IMAGE, LABEL_KEY, REMEDIES, Image, Labels
from modelyard.manifests.openapi import published
from modelyard.manifests.schema import SchemaError
from modelyard.manifests.structural import structural
from tests.manifests.toys import ToySpec, ToyStatus


def fields(struct: type[Struct], *, written_by_users: bool = True) -> dict[str, Any]:
    return structural(struct, published().definitions, written_by_users=written_by_users)["properties"]


def field(annotation: Any, **default: Any) -> dict[str, Any]:
    entry = ("it", annotation, default["default"]) if default else ("it", annotation)
    return fields(defstruct("Holder", [entry]))["it"]


def test_an_enum_lists_its_values_and_keeps_the_description_of_the_field():
    assert fields(ToySpec)["colour"] == {"type": "string", "enum": ["blue", "red"], "description": "Its colour."}


def test_a_struct_default_is_an_empty_object_so_that_the_defaults_inside_fire():
    wheels = fields(ToySpec)["wheels"]
    assert wheels["default"] == {}
    assert wheels["properties"]["howMany"] == {
        "type": "integer", "format": "int32", "minimum": 0, "maximum": 64, "default": 4, "description": "How many.",
    }  # fmt: skip


def test_a_struct_default_states_only_what_differs_from_the_defaults_inside():
    assert fields(ToySpec)["tricycle"]["default"] == {"howMany": 3}


def test_a_field_without_a_description_takes_that_of_its_struct():
    assert fields(ToySpec)["tricycle"]["description"] == "What it rolls on."


def test_a_field_that_may_be_none_may_be_left_out_and_is_not_null():
    trailer = fields(ToySpec)["trailer"]
    assert trailer["type"] == "object"
    assert trailer.keys().isdisjoint({"default", "nullable", "anyOf"})


def test_null_is_allowed_where_only_null_can_say_it():
    assert fields(ToySpec)["age"] == {"type": "integer", "format": "int64", "nullable": True, "default": 3}
    assert field(int | None) == {"type": "integer", "format": "int64", "nullable": True}


def test_the_bounds_of_an_optional_field_are_kept():
    assert fields(ToySpec)["owner"] == {"type": "string", "maxLength": 20}


@pytest.mark.parametrize("name", ["names", "notes", "nickname", "free", "env", "parts"])
def test_empty_defaults_are_not_stated(name: str):
    assert "default" not in fields(ToySpec)[name]


def test_zero_and_false_are_defaults_like_any_other():
    assert fields(ToySpec)["weight"]["default"] == 0
    assert fields(ToySpec)["loud"] == {"type": "boolean", "default": False}


def test_what_users_write_is_bounded():
    names = fields(ToySpec)["names"]
    assert names == {
        "type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 4096},
        "x-kubernetes-list-type": "atomic",
    }  # fmt: skip
    assert fields(ToySpec)["notes"] == {
        "type": "object", "maxProperties": 256, "additionalProperties": {"type": "string", "maxLength": 4096},
    }  # fmt: skip


def test_what_we_write_has_neither_defaults_nor_bounds_of_ours():
    status = fields(ToyStatus, written_by_users=False)
    assert status["ready"] == {"type": "boolean"}
    assert status["names"] == {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}


def test_a_pattern_that_has_words_is_a_rule_that_says_them():
    assert field(Image, default="") == {
        "type": "string", "maxLength": 1024,
        "x-kubernetes-validations": [{"rule": f"self.matches(r'{IMAGE}')", "message": REMEDIES[IMAGE]}],
    }  # fmt: skip


def test_the_keys_of_a_map_are_bounded_by_a_rule():
    labels = field(Labels, default={})
    assert labels["x-kubernetes-validations"] == [
        {"rule": f"self.all(key, size(key) <= 317 && key.matches(r'{LABEL_KEY}'))", "message": REMEDIES[LABEL_KEY]}
    ]
    assert labels["additionalProperties"]["maxLength"] == 63


def test_a_keyed_list_keeps_its_keys():
    conditions = fields(ToyStatus, written_by_users=False)["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_a_number_or_text_is_int_or_string():
    assert fields(ToySpec)["size"] == {
        "x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}],
        "maxLength": 4096, "default": "100%",
    }  # fmt: skip


def test_both_sides_of_a_number_or_text_keep_their_bounds():
    assert field(Annotated[int, Meta(ge=1)] | Annotated[str, Meta(pattern="%$", max_length=8)]) == {
        "x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}],
        "minimum": 1, "pattern": "%$", "maxLength": 8,
    }  # fmt: skip


def test_a_free_form_object_keeps_its_content():
    assert fields(ToySpec)["free"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert field(Any) == {"x-kubernetes-preserve-unknown-fields": True}


def test_an_integer_without_a_maximum_has_64_bits():
    assert fields(ToySpec)["weight"]["format"] == "int64"


def test_integers_to_choose_from_are_integers():
    assert field(Literal[1, 2], default=1) == {"type": "integer", "enum": [1, 2], "default": 1}


def test_an_embedded_type_is_there_in_full_under_the_description_of_the_field():
    resources = fields(ToySpec)["resources"]
    assert resources["description"] == "What it needs."
    assert resources["properties"]["limits"]["additionalProperties"]["x-kubernetes-int-or-string"] is True
    assert fields(ToySpec)["env"]["items"]["required"] == ["name"]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (int | bool, "Holder.it: may be of several types"),
        (Literal["a", 1], "Holder.it: has choices of several types"),
        (Annotated[int, Meta(gt=1)], "Holder.it: exclusiveMinimum cannot be said in a CRD"),
        (list[tuple[int, str]], r"Holder.it\[\]: prefixItems cannot be said in a CRD"),
    ],
)
def test_a_type_that_a_crd_cannot_hold_is_refused_by_the_name_of_its_field(annotation: Any, message: str):
    with pytest.raises(SchemaError, match=message):
        field(annotation)
