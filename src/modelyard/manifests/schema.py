"""What both converters to structural schemas share: their error, and the shapes that Kubernetes spells its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    from modelyard.core.objects import Json

QUANTITY_PATTERN: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"

LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
RULES: Final = "x-kubernetes-validations"


class SchemaError(ModelyardError):
    """A type cannot be said in a structural schema; the author of the kind must change it."""

    def __init__(self, field: str, wrong: str, remedy: str) -> None:
        super().__init__(f"{field}: {wrong}; {remedy}")


def int_or_string() -> Json:
    """Return the schema of a value that is written as a number or as text."""
    return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}


def anything() -> Json:
    """Return the schema of an object with any content, which the API server keeps as it is."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
