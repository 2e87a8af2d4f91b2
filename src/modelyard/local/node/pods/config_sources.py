"""The Secrets and ConfigMaps that a pod names, for its variables and volumes. Read when needed, and not watched."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError
from modelyard.core.resources import SECRET, Key, Resource
from modelyard.kube.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.core.objects import Stored
    from modelyard.kube.client import Client

CONFIG_MAP: Final = Resource("", "v1", "ConfigMap", "configmaps")

Content = dict[str, bytes]


class ConfigMissing(ModelyardError):
    """An object or field that a container needs is missing or unusable; the message names it. Retried by the worker."""


class ConfigSources:
    """The Secrets and ConfigMaps of one namespace. Each is read once, so that one start sees one version."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._read: dict[tuple[str, str], Stored | None] = {}

    async def secret(self, name: str) -> Content | None:
        """Return the decoded content of a Secret by key; None: there is no such Secret."""
        found = await self._get(SECRET, name)
        return _unpacked(found.part("data")) if found else None

    async def config_map(self, name: str) -> Content | None:
        """Return the content of a ConfigMap by key, `binaryData` included; None: there is no such ConfigMap."""
        found = await self._get(CONFIG_MAP, name)
        return {**_encoded(found.part("data")), **_unpacked(found.part("binaryData"))} if found else None

    async def config_map_text(self, name: str) -> Content | None:
        """Return the content of a ConfigMap that can be a variable, which is `data` alone; None: there is none."""
        found = await self._get(CONFIG_MAP, name)
        return _encoded(found.part("data")) if found else None

    async def _get(self, resource: Resource, name: str) -> Stored | None:
        where = (resource.kind, name)
        if where not in self._read:
            self._read[where] = await self._ask(resource, name)
        return self._read[where]

    async def _ask(self, resource: Resource, name: str) -> Stored | None:
        try:
            return await self._client.get(resource, Key(self._namespace, name))
        except NotFound:
            return None


def _encoded(data: Mapping[str, str]) -> Content:
    return {key: value.encode() for key, value in data.items()}


def _unpacked(data: Mapping[str, str]) -> Content:
    return {key: b64decode(value) for key, value in data.items()}
