"""What becomes of zeros on a real API server: kept where the field is a pointer, dropped where it is not.

No OpenAPI document tells which is which. `core/field_types.py` says it of the types that children have or will have,
and here the server is asked: about manifests that state zeros on purpose, in `zeros.yaml`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import yaml
from msgspec import Struct

from modelyard.core.diff import first_difference
from modelyard.core.field_types import ROOTS
from modelyard.core.objects import Json
from modelyard.core.resources import Key, Resource
from modelyard.kinds.mcp import MCP
from tests.core.leaves import counterpart, holds, may_be_absent, overlooked, zeros

if TYPE_CHECKING:
    from modelyard.kube.client import Client
    from tests.core.leaves import Path as Place


class Stating(Struct, frozen=True, forbid_unknown_fields=True):
    """A manifest that states zeros, and which of them the server forgets or would show anyway."""

    plural: str
    object: Json
    dropped: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    @property
    def root(self) -> tuple[str, str]:
        return self.object["apiVersion"], self.object["kind"]

    @property
    def resource(self) -> Resource:
        group, _, version = self.object["apiVersion"].rpartition("/")
        return Resource(group, version, self.object["kind"], self.plural)

    def body(self, namespace: str) -> Json:
        return {**self.object, "metadata": {**self.object.get("metadata", {}), "name": "it", "namespace": namespace}}


FILE = Path(__file__).with_name("zeros.yaml")
STATING = msgspec.convert(list(yaml.safe_load_all(FILE.read_text(encoding="utf-8"))), list[Stating])
CUSTOM = Stating(
    plural=MCP.resource.plural,
    object={
        "apiVersion": MCP.resource.api_version,
        "kind": MCP.resource.kind,
        "metadata": {"labels": {"empty": ""}, "annotations": {}},
        "spec": {"image": "one", "replicas": 0, "env": [], "server": {"args": [""], "tls": {"enabled": False}}},
    },
    dropped=("metadata.annotations",),
)


def dotted(path: Place) -> str:
    return ".".join(map(str, path))


def test_every_type_of_the_table_is_asked_about():
    assert {stating.root for stating in STATING} == ROOTS.keys()


@pytest.mark.parametrize("stating", STATING, ids=lambda stating: stating.object["kind"])
async def test_zeros_are_kept_and_dropped_as_the_types_say(client: Client, namespace: str, stating: Stating):
    await check(client, namespace, stating)


@pytest.mark.usefixtures("installed")
async def test_custom_resources_keep_every_zero_but_those_of_metadata(client: Client, namespace: str):
    await check(client, namespace, CUSTOM)


async def check(client: Client, namespace: str, stating: Stating) -> None:
    body = stating.body(namespace)
    created = (await client.create(stating.resource, body)).to_dict()
    gone = [dotted(path) for path in zeros(body) if not holds(created, counterpart(body, created, path))]
    assert sorted(gone) == sorted(stating.dropped)
    absent = [dotted(path) for path in zeros(body) if may_be_absent(body, path)]
    assert sorted(absent) == sorted([*stating.dropped, *stating.shown])
    assert first_difference(body, created) is None
    applied = (await client.apply(stating.resource, Key(namespace, "it"), body)).to_dict()
    assert first_difference(body, applied) is None
    assert overlooked(body, applied) == []
