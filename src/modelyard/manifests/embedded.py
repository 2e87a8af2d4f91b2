"""From a type that Kubernetes publishes to the same type inside a CRD.

A CRD may hold no references and only the keywords of a structural schema. Descriptions, required fields and the list
and map types stay. Defaults and bounds are not added: the pod or autoscaler that gets the value has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.manifests.schema import (
    LIST_KEYS,
    LIST_TYPE,
    QUANTITY_PATTERN,
    SchemaError,
    anything,
    int_or_string,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.core.objects import Json

_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_KEPT: Final = frozenset(
    {"type", "format", "description", "enum", "required", LIST_TYPE, LIST_KEYS, "x-kubernetes-map-type"}
)


def embedded(name: str, definitions: Mapping[str, Json]) -> Json:
    """Return the full schema of one published type."""
    return _named(name, definitions, ())


def _named(name: str, definitions: Mapping[str, Json], inside: tuple[str, ...]) -> Json:
    if name == _QUANTITY:
        return {**int_or_string(), "pattern": QUANTITY_PATTERN}
    if name == _INT_OR_STRING:
        return int_or_string()
    if name in inside:
        raise SchemaError(name, "refers to itself", "a CRD cannot hold it; embed a smaller type")
    if name not in definitions:
        raise SchemaError(name, "is not in kubernetes.json", "run `make generate`")
    return _inlined(definitions[name], definitions, (*inside, name))


def _inlined(schema: Json, definitions: Mapping[str, Json], inside: tuple[str, ...]) -> Json:
    if "$ref" in schema:
        target = _named(schema["$ref"].rpartition("/")[2], definitions, inside)
        return target | {key: schema[key] for key in ("description",) if key in schema}
    result = {key: value for key, value in schema.items() if key in _KEPT}
    for key in ("items", "additionalProperties"):
        if key in schema:
            result[key] = _inlined(schema[key], definitions, inside)
    if "properties" in schema:
        result["properties"] = {
            name: _inlined(field, definitions, inside) for name, field in schema["properties"].items()
        }
    return _closed(_addressable(result))


def _addressable(schema: Json) -> Json:
    """Replace as a whole any list whose entries may lack the key: CRDs refuse to merge such a list."""
    if set(schema.get(LIST_KEYS, ())) <= set(schema.get("items", {}).get("required", ())):
        return schema
    return {key: value for key, value in schema.items() if key != LIST_KEYS} | {LIST_TYPE: "atomic"}


def _closed(schema: Json) -> Json:
    """Keep the content of free-form objects, which pruning would take away."""
    if schema.get("type") == "object" and not schema.keys() & {"properties", "additionalProperties"}:
        return schema | anything()
    return schema
