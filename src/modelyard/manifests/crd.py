"""The CustomResourceDefinition of a kind: its types as a schema, its rules as CEL, its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.manifests.openapi import published
from modelyard.manifests.structural import structural

if TYPE_CHECKING:
    from modelyard.core.stored import Json
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
    validations = [_validation(rule, root) for rule in kind.rules]
    return root | required | ({"x-kubernetes-validations": validations} if validations else {})


def _optional(spec: Json) -> Json:
    """Let an object without a spec show the defaults too, where the spec has no required field."""
    return spec if "required" in spec else spec | {"default": {}}


def _validation(rule: Rule, root: Json) -> Json:
    where = {"fieldPath": f".{rule.field}"} if _is_field(rule.field, root) else {}
    return {"rule": rule.cel, "message": rule.message, **where}


def _is_field(path: str, root: Json) -> bool:
    """Tell whether the schema has this field: the API server refuses a rule that points anywhere else."""
    schema = root
    for name in path.split("."):
        if name not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name]
    return True


def _column(column: Column) -> Json:
    shown = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return shown | ({"priority": 1} if column.wide else {})
