"""From a msgspec Struct to a structural schema, as CRDs take it.

What users write gets defaults and bounds: a field that states no maximum gets a generous one, because the API server
refuses CEL rules over values without end. What we write ourselves (status) gets neither: a default would come back as
a change that we did not make, and a bound would make our own write fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from modelyard.core.embedded import EMBED
from modelyard.core.objects import Json
from modelyard.core.pod_fields import REMEDIES
from modelyard.manifests.embedded import embedded
from modelyard.manifests.schema import LIST_TYPE, RULES, SchemaError, anything, int_or_string

_MAX_LENGTH: Final = 4096
_MAX_ITEMS: Final = 256
_INT32: Final = 2**31

_COPIED: Final = frozenset(
    {
        "type", "description", "format", "pattern", "minimum", "maximum", "multipleOf", "minLength", "maxLength",
        "minItems", "maxItems", "minProperties", "maxProperties",
    }
)  # fmt: skip
_TRANSLATED: Final = frozenset(
    {
        "title", "enum", "anyOf", "items", "properties", "required", "additionalProperties", "propertyNames", "default",
        "nullable", EMBED,
    }
)  # fmt: skip
_NULL: Final = {"type": "null"}


class Source(Struct, frozen=True):
    """What the conversion of one schema needs: the types that it refers to, and whether users write the values."""

    structs: Mapping[str, Json]
    kubernetes: Mapping[str, Json]
    written_by_users: bool


def structural(struct: type[Struct], kubernetes: Mapping[str, Json], *, written_by_users: bool) -> Json:
    """Return the structural schema of a Struct; `kubernetes` holds the published types it may embed."""
    components = msgspec.json.schema_components([struct], ref_template="{name}")
    # Defaults come as Python values, tuples among them; only as JSON do they compare with what a manifest holds.
    (root,), structs = msgspec.json.decode(msgspec.json.encode(components))
    return _converted(root, Source(structs, kubernetes, written_by_users), struct.__name__)


def _converted(schema: Json, source: Source, at: str) -> Json:
    schema = _resolved(_without_null(_resolved(schema, source)), source)
    _refuse_unknown(schema, at)
    extensions = {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
    if EMBED in schema:
        described = {key: schema[key] for key in ("description", "nullable") if key in schema}
        return embedded(schema[EMBED], source.kubernetes) | described | extensions
    result = {key: value for key, value in schema.items() if key in _COPIED | {"nullable"}} | extensions
    result = _in_words(result) | _shape(schema, source, at)
    if source.written_by_users:
        result = _bounded(result)
        default = _default(schema.get("default"), result)
        result |= {} if default is None else {"default": default}
    return result


def _resolved(schema: Json, source: Source) -> Json:
    """Replace a reference by its target; what is said next to the reference wins, such as a field's description."""
    if "$ref" not in schema:
        return schema
    return source.structs[schema["$ref"]] | {key: value for key, value in schema.items() if key != "$ref"}


def _without_null(schema: Json) -> Json:
    """Read `T | None = None` as a field that may be left out; only other nulls have to be written as null."""
    options = [option for option in schema.get("anyOf", ()) if option != _NULL]
    if _NULL not in schema.get("anyOf", ()):
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if schema.get("default", ...) is not None:
        rest["nullable"] = True
    return options[0] | rest if len(options) == 1 else {"anyOf": options} | rest


def _refuse_unknown(schema: Json, at: str) -> None:
    unknown = sorted(key for key in schema.keys() - _COPIED - _TRANSLATED if not key.startswith("x-kubernetes-"))
    if unknown:
        raise SchemaError(at, f"{', '.join(unknown)} cannot be said in a CRD", "use another type or bound")


def _in_words(schema: Json) -> Json:
    """Replace a pattern that has words by a rule with these words as its message."""
    if schema.get("pattern") not in REMEDIES:
        return schema
    rule = _match_rule("self.matches(r'{}')", schema["pattern"])
    return {key: value for key, value in schema.items() if key != "pattern"} | {RULES: [rule]}


def _match_rule(cel: str, pattern: str) -> Json:
    return {"rule": cel.format(pattern), "message": REMEDIES[pattern]}


def _shape(schema: Json, source: Source, at: str) -> Json:
    """Return what depends on the type of the value."""
    if "anyOf" in schema:
        return _union(schema["anyOf"], at)
    if "enum" in schema:
        return _enum(schema["enum"], at)
    match schema.get("type"):
        case "object":
            return _object(schema, source, at)
        case "array":
            items = _converted(schema["items"], source, f"{at}[]")
            return {"items": items, LIST_TYPE: schema.get(LIST_TYPE, "atomic")}
        case "integer":
            return {"format": schema.get("format") or _integer_format(schema)}
        case None:
            return {"x-kubernetes-preserve-unknown-fields": True}
    return {}


def _union(options: list[Json], at: str) -> Json:
    if sorted(str(option.get("type")) for option in options) != ["integer", "string"]:
        raise SchemaError(at, "may be of several types", "a CRD field has one; only int | str is understood")
    # Bounds of numbers do not concern text, nor the other way round, so that they can stand side by side.
    bounds = {key: value for option in options for key, value in option.items()}
    _refuse_unknown(bounds, at)
    return {key: value for key, value in bounds.items() if key != "type"} | int_or_string()


def _enum(values: list[Any], at: str) -> Json:
    types = {type(value) for value in values}
    if types == {str}:
        return {"type": "string", "enum": values}
    if types == {int}:
        return {"type": "integer", "enum": values}
    raise SchemaError(at, "has choices of several types", "make all of them strings or all of them integers")


def _object(schema: Json, source: Source, at: str) -> Json:
    if "properties" in schema:
        fields = {name: _converted(field, source, f"{at}.{name}") for name, field in schema["properties"].items()}
        required = sorted(schema.get("required", ()))
        return {"properties": fields, **({"required": required} if required else {})}
    if isinstance(schema.get("additionalProperties"), dict):
        return {"additionalProperties": _converted(schema["additionalProperties"], source, f"{at}[]"), **_keys(schema)}
    return anything()


def _keys(schema: Json) -> Json:
    """Return the rule for the keys of a map, because no keyword of a CRD is about them; empty: any will do."""
    if "propertyNames" not in schema:
        return {}
    pattern, limit = schema["propertyNames"]["pattern"], schema["propertyNames"]["maxLength"]
    return {RULES: [_match_rule(f"self.all(key, size(key) <= {limit} && key.matches(r'{{}}'))", pattern)]}


def _integer_format(schema: Json) -> str:
    fits = "maximum" in schema and "minimum" in schema and -_INT32 <= schema["minimum"] <= schema["maximum"] < _INT32
    return "int32" if fits else "int64"


def _bounded(schema: Json) -> Json:
    match schema:
        case {"enum": _}:
            return schema
        case {"type": "string"} | {"x-kubernetes-int-or-string": True}:
            return {"maxLength": _MAX_LENGTH} | schema
        case {"type": "array"}:
            return {"maxItems": _MAX_ITEMS} | schema
        case {"additionalProperties": _}:
            return {"maxProperties": _MAX_ITEMS} | schema
    return schema


def _default(value: Any, schema: Json) -> Any:
    """Return the default to state, or None.

    Empty text, lists and maps mean the same as a field that is left out, and would only fill every stored object.
    """
    if isinstance(value, dict) and "properties" in schema:
        return _differing(value, schema["properties"])
    return None if value in ("", [], {}) else value


def _differing(value: Json, fields: Json) -> Json:
    """Return what a default object says beyond the defaults of its own fields, which the API server adds itself."""
    stated = {name: _default(item, fields[name]) for name, item in value.items()}
    return {name: item for name, item in stated.items() if item is not None and item != fields[name].get("default")}
