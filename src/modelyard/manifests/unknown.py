"""Fields of a manifest that its CRD does not have, as `kubectl --validate=strict` finds them. For `modelyard plan`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from modelyard.manifests.openapi import published
from modelyard.manifests.structural import structural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Json
    from modelyard.kinds.contract import Kind


def unknown_fields(kind: Kind, body: Json) -> list[str]:
    """Return a line for each field of a spec that the kind does not have."""
    schema = structural(kind.spec, published().definitions, written_by_users=True)
    return list(_unknown(schema, body.get("spec"), "spec"))


def _unknown(schema: Json, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _unknown(schema["items"], item, f"{path}[{number}]")
    elif isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        for name, inner in value.items():
            if name in known:
                yield from _unknown(known[name], inner, f"{path}.{name}")
            else:
                yield f"{path}.{name} is not a field{_meant(str(name), known)}"


def _meant(name: str, known: Json) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
