"""The schemas of Kubernetes' own types, as the API server publishes them.

`kubernetes.json` holds the part of the API server's `/openapi/v2` that our kinds embed, so that CRDs can be printed
without a cluster. `make generate` renews it; edits are lost.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.embedded import EMBED
from modelyard.core.objects import Json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.kinds.contract import Kind

KEPT_IN: Final = Path(__file__).with_name("kubernetes.json")


class Published(Struct, frozen=True):
    """Definitions by name, and the version of the API server that published them."""

    version: str
    definitions: dict[str, Json]


@cache
def published() -> Published:
    """Return the definitions that came with this package."""
    return msgspec.json.decode(KEPT_IN.read_bytes(), type=Published)


def text(kept: Published) -> str:
    """Return the text of `kubernetes.json`."""
    return json.dumps(msgspec.to_builtins(kept), indent=1, sort_keys=True) + "\n"


def extract(document: Json, names: Iterable[str]) -> Published:
    """Keep of a whole OpenAPI document only the named definitions and whatever they refer to."""
    definitions: dict[str, Json] = {}
    wanted = sorted(names)
    while wanted:
        name = wanted.pop()
        if name not in definitions:
            definitions[name] = document["definitions"][name]
            wanted += _found("$ref", definitions[name])
    return Published(document["info"]["version"], definitions)


def embedded_names(kinds: Iterable[Kind]) -> frozenset[str]:
    """Return the Kubernetes types that these kinds embed."""
    structs = [struct for kind in kinds for struct in (kind.spec, kind.status)]
    return frozenset(_found(EMBED, msgspec.json.schema_components(structs)[1]))


def _found(keyword: str, schema: object) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _found(keyword, item)
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == keyword and isinstance(value, str):
                yield value.rpartition("/")[2]
            yield from _found(keyword, value)
