"""The CustomResourceDefinition of a kind: its types as a schema, its rules as CEL, its columns."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from modelyard.manifests.openapi import published
from modelyard.manifests.schema import RULES, SchemaError
from modelyard.manifests.structural import structural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelyard.core.objects import Json
    from modelyard.kinds.contract import Column, Kind, Rule

_AGE: Final = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_SCALE: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def crd(kind: Kind) -> Json:
    """Return the CRD of a kind."""
    resource = kind.resource
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.label},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": _names(kind),
            "versions": [_version(kind)],
        },
    }


def _names(kind: Kind) -> Json:
    names: Json = {
        "kind": kind.resource.kind,
        "listKind": f"{kind.resource.kind}List",
        "plural": kind.resource.plural,
        "singular": kind.name,
    }
    extra = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return names | {key: value for key, value in extra.items() if value}


def _version(kind: Kind) -> Json:
    return {
        "name": kind.resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(kind)},
        "subresources": {"status": {}, **({"scale": _SCALE} if kind.scale else {})},
        "additionalPrinterColumns": [*map(_column, kind.columns), _AGE],
    }


def _root(kind: Kind) -> Json:
    assert kind.status, "a kind without a status has no CRD of ours"
    kubernetes = published().definitions
    spec = structural(kind.spec, kubernetes, written_by_users=True)
    root = {
        "type": "object",
        "description": spec.get("description", kind.resource.kind),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # The name is stated so that a rule may point at it; of metadata a CRD may state nothing else.
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": _optional(spec) | {"description": "What is wanted."},
            "status": structural(kind.status, kubernetes, written_by_users=False),
        },
    }
    required = {"required": ["spec"]} if "required" in spec else {}
    return reduce(_with_rule, kind.rules, root | required)


def _optional(spec: Json) -> Json:
    """Let an object without a spec show the defaults too, where the spec has no required field."""
    return spec if "required" in spec else spec | {"default": {}}


def _with_rule(root: Json, rule: Rule) -> Json:
    at = rule.field if rule.at is None else rule.at
    below = rule.field.removeprefix(at).removeprefix(".")
    where = {"fieldPath": f".{below}"} if below else {}
    said = {"message": rule.message, "messageExpression": rule.message_expression}
    words = {name: text for name, text in said.items() if text}
    if at:
        return _placed(root, at.split("."), {"rule": rule.cel, **words, **where})
    # The whole object changes with every write, so that nothing would ever excuse one that was stored before the rule.
    once = {"rule": f"oldSelf.hasValue() || ({rule.cel})", "optionalOldSelf": True}
    return _placed(root, [], {**once, **words, **where})


def _placed(schema: Json, path: Sequence[str], validation: Json) -> Json:
    """Return the schema with a rule at the field that the path leads to."""
    if not path:
        return schema | {RULES: [*schema.get(RULES, ()), validation]}
    fields = schema.get("properties", {})
    if path[0] not in fields:
        raise SchemaError(path[0], "is not a field that a rule can be about", "correct `field` or `at` of the rule")
    return schema | {"properties": fields | {path[0]: _placed(fields[path[0]], path[1:], validation)}}


def _column(column: Column) -> Json:
    shown = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return shown | ({"priority": 1} if column.wide else {})
