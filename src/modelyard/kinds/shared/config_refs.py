"""Keys of Secrets and ConfigMaps that a spec names: their reads, and one digest that restarts pods when any changes.

Pure. The values of Secrets are salted hashes here, as `runtime/gather.py` shows them. A Kubernetes Deployment does not
restart pods for such a change, and a container reads its variables only at start.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core.resources import CONFIG_MAP, SECRET, Resource
from modelyard.kinds.contract import Named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.kinds.contract import Seen

Json = dict[str, Any]

CONFIG_HASH: Final = "modelyard.dev/config-hash"
"""The annotation of a pod template that holds the digest."""

_SOURCES: Final = {"secretKeyRef": SECRET, "configMapKeyRef": CONFIG_MAP}


class ConfigRef(Struct, frozen=True, order=True):
    """A key of a Secret or a ConfigMap."""

    kind: str
    name: str
    key: str = ""
    """Empty: all keys."""

    @property
    def read(self) -> Named:
        """The read of the object."""
        return Named(_by_kind(self.kind), self.name)

    def value(self, seen: Seen) -> str:
        """Return what the key holds, or its hash; empty: the object or the key is absent.

        What is not UTF-8, such as a remark among certificates, is in the `binaryData` of a ConfigMap.
        """
        found = seen.one(self.read)
        data = {**found.part("binaryData"), **found.part("data")} if found else {}
        return str(data.get(self.key, "")) if self.key else repr(sorted(data.items()))


def secret_key(selector: Json | None) -> Iterator[ConfigRef]:
    """Return the key that a SecretKeySelector names, if it names one."""
    if selector and selector.get("name"):
        yield ConfigRef(SECRET.kind, str(selector["name"]), str(selector["key"]))


def env_refs(env: Iterable[Json]) -> Iterator[ConfigRef]:
    """Return the keys that environment variables take their values from."""
    for source in (entry.get("valueFrom") or {} for entry in env):
        for field, resource in _SOURCES.items():
            if (named := source.get(field)) and named.get("name"):
                yield ConfigRef(resource.kind, str(named["name"]), str(named.get("key", "")))


def env_from_refs(sources: Iterable[Json]) -> Iterator[ConfigRef]:
    """Return the Secrets and ConfigMaps that become environment variables as a whole."""
    for source in sources:
        for field, resource in (("secretRef", SECRET), ("configMapRef", CONFIG_MAP)):
            if (named := source.get(field)) and named.get("name"):
                yield ConfigRef(resource.kind, str(named["name"]))


def config_hash(refs: Iterable[ConfigRef], seen: Seen) -> dict[str, str]:
    """Return the annotation with the digest of all values; empty: nothing is named."""
    known = sorted(set(refs))
    if not known:
        return {}
    values = repr([(ref.kind, ref.name, ref.key, ref.value(seen)) for ref in known])
    return {CONFIG_HASH: hashlib.sha256(values.encode()).hexdigest()[:16]}


def _by_kind(kind: str) -> Resource:
    return SECRET if kind == SECRET.kind else CONFIG_MAP
