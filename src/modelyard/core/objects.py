"""Objects as the API server returned them, in the form that caches hold.

An object is a few typed metadata fields plus the JSON text of everything else. Text takes a tenth of the memory of
dicts and costs the garbage collector nothing; a part is decoded when it is needed, which takes microseconds.
`managedFields`, usually the largest part, is dropped. docs/design/0002-lean-cache.md has the figures.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec
from msgspec import Raw, Struct

from modelyard.core.resources import Key, Ref, Resource

Json = dict[str, Any]


class OwnerReference(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One entry of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(Struct, frozen=True, rename="camel"):
    """The fields of ObjectMeta that are kept."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Namespace and name of the object."""
        return Key(self.namespace, self.name)

    @property
    def home(self) -> str:
        """The namespace of its children: its own, or that of its name if it has none, as a Namespace."""
        return self.namespace or self.name

    @property
    def revision(self) -> int:
        """The resource version as a number, so that two can be compared: all supported API servers count upwards."""
        return int(self.resource_version or 0)

    @property
    def deleting(self) -> bool:
        """Whether the object is being deleted, and waits for its finalizers or its grace period."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`; None: it has none."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    def label(self, name: str) -> str:
        """Return the value of a label; empty: it is absent."""
        return (self.labels or {}).get(name, "")

    def annotation(self, name: str) -> str:
        """Return the value of an annotation; empty: it is absent."""
        return (self.annotations or {}).get(name, "")


_METADATA = msgspec.json.Decoder(Metadata)
_PARTS = msgspec.json.Decoder(dict[str, Raw])
_NOT_KEPT = frozenset({"metadata", "kind", "apiVersion"})


class Stored(Struct, frozen=True):
    """One object of the cluster at one resource version."""

    resource: Resource
    meta: Metadata
    parts: dict[str, bytes]

    @classmethod
    def from_json(cls, resource: Resource, text: bytes | Raw) -> Self:
        """Return the object of a response or a watch event."""
        return cls.from_parts(resource, _PARTS.decode(text))

    @classmethod
    def from_parts(cls, resource: Resource, raw: dict[str, Raw]) -> Self:
        """Return an object whose outermost level is decoded already."""
        parts = {name: bytes(part) for name, part in raw.items() if name not in _NOT_KEPT}
        if resource.status_kept is not None and "status" in parts:
            fields = _PARTS.decode(parts["status"])
            parts["status"] = msgspec.json.encode(
                {name: fields[name] for name in resource.status_kept if name in fields}
            )
        return cls(resource, _METADATA.decode(raw["metadata"]), parts)

    @classmethod
    def from_dict(cls, resource: Resource, body: Json) -> Self:
        """Return the object of a manifest, for the command line and tests."""
        return cls.from_json(resource, msgspec.json.encode(body))

    @property
    def ref(self) -> Ref:
        """Resource, key and UID: exactly this object."""
        return Ref(self.resource, self.meta.key, self.meta.uid)

    def part(self, name: str) -> Any:
        """Decode one top-level field, such as `data`; an absent one is an empty dict."""
        text = self.parts.get(name)
        return msgspec.json.decode(text) if text is not None else {}

    @property
    def spec(self) -> Json:
        """The decoded spec; empty: it is absent."""
        return dict(self.part("spec"))

    @property
    def status(self) -> Json:
        """The decoded status; empty: it is absent."""
        return dict(self.part("status"))

    def to_dict(self) -> Json:
        """Return the object as a manifest, without the metadata that is not kept."""
        head = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        meta = msgspec.json.decode(msgspec.json.encode(self.meta))
        return {**head, "metadata": meta, **{name: self.part(name) for name in self.parts}}
