"""From the API server's definitions to the table that comparisons follow."""

from __future__ import annotations

from typing import Any

import pytest

from tools.field_types import text

REF = "#/components/schemas/"
CONFIG_MAP = "io.k8s.api.core.v1.ConfigMap"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
PORT = "io.k8s.api.core.v1.Port"


def reference(name: str) -> dict[str, Any]:
    # Beside a default, a reference is wrapped like this.
    return {"default": {}, "allOf": [{"$ref": REF + name}]}


def ports(**extra: Any) -> dict[str, Any]:
    return {"type": "array", "items": reference(PORT), **extra}


def table(pointers: tuple[str, ...] = (), more: dict[str, Any] | None = None, **properties: Any) -> list[str]:
    """Return the lines of the types of an object with these fields."""
    config_map = {
        "properties": {**properties, "status": reference("not published")},
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ConfigMap"}],
    }
    port = {"properties": {"number": {"type": "integer", "default": 0}, "protocol": {"default": "TCP"}}}
    free = {QUANTITY: {"oneOf": []}, TIME: {"type": "string"}}
    definitions = {CONFIG_MAP: config_map, PORT: port, **free, **(more or {})}
    lines = text(definitions, {**dict.fromkeys(definitions, ()), CONFIG_MAP: pointers}).splitlines()
    assert '    ("v1", "ConfigMap"): "core.v1.ConfigMap",' in lines
    return lines[lines.index("FIELDS: Final[dict[str, dict[str, str]]] = {") + 1 : -1]


@pytest.mark.parametrize(
    ("schema", "expression"),
    [
        pytest.param({"$ref": REF + QUANTITY}, "quantity", id="a quantity"),
        pytest.param({"type": "object", "additionalProperties": {"type": "string"}}, "{}", id="a map"),
        pytest.param(
            {"type": "object", "additionalProperties": {"$ref": REF + QUANTITY}}, "{}quantity", id="of quantities"
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
            "{whole}",
            id="a map with one owner",
        ),
        pytest.param({"type": "array", "items": {"type": "string"}}, "[]", id="a list"),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, "[set]", id="a set"
        ),
        pytest.param({"type": "object"}, "any", id="any JSON"),
    ],
)
def test_a_field_is_written_by_its_type(schema: dict[str, Any], expression: str):
    assert table(field=schema) == [f'    "core.v1.ConfigMap": {{"field": "{expression}"}},']
    assert table(("field",), field=schema) == [f'    "core.v1.ConfigMap": {{"field": "*{expression}"}},']


def test_a_scalar_is_only_written_if_it_is_a_pointer():
    fields = {"plain": {"type": "string"}, "time": {"$ref": REF + TIME}, "pointer": {"type": "boolean"}}
    assert table(("pointer",), **fields) == ['    "core.v1.ConfigMap": {"pointer": "*"},']


def test_a_type_brings_those_that_it_holds():
    assert table(port=reference(PORT)) == [
        '    "core.v1.ConfigMap": {"port": "core.v1.Port"},',
        '    "core.v1.Port": {},',
    ]


def test_a_list_with_keys_names_them_and_what_stands_for_one_that_is_left_out():
    keyed = ports(**{"x-kubernetes-list-map-keys": ["number", "protocol"], "x-kubernetes-list-type": "map"})
    assert table(ports=keyed)[0] == '    "core.v1.ConfigMap": {"ports": "[number,protocol=TCP]core.v1.Port"},'
    assert table(ports=ports())[0] == '    "core.v1.ConfigMap": {"ports": "[]core.v1.Port"},'


def test_two_types_of_one_short_name_are_refused():
    other = PORT.replace("api.core", "other.core")
    with pytest.raises(ValueError, match="have the same short name; tell them apart"):
        table(more={other: {"properties": {}}}, one=reference(PORT), two=reference(other))
