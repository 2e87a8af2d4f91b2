"""The links between objects: which others an object refers to, or finds by labels. Pure.

`yard` puts them into rows, and the overview draws them. They are read from specs as users write them, and not by the
`reads` of a kind: a reconcile also reads what an object only competes with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from modelyard.kinds.shared.discovery import LabelSelector
from modelyard.page.rows import id_of, object_id

if TYPE_CHECKING:
    from modelyard.core.objects import Stored

Json = dict[str, Any]
Links = Callable[["Stored", "Index"], Iterable[str]]

_URLS: Final = ("serviceUrl", "endpoint", "url")


class Index:
    """All objects by what others find them by: their addresses, and their kind with its labels."""

    def __init__(self) -> None:
        self._by_host: dict[str, str] = {}
        self._hosts: dict[str, frozenset[str]] = {}
        self._labels: dict[str, dict[str, tuple[str, dict[str, str]]]] = {}

    def add(self, item: Stored) -> None:
        """Take a new or changed object."""
        key = id_of(item)
        self.remove(item)
        hosts = frozenset(filter(None, (_host(str(item.status.get(name) or "")) for name in _URLS)))
        if hosts:
            self._hosts[key] = hosts
            self._by_host.update(dict.fromkeys(hosts, key))
        self._labels.setdefault(item.resource.kind, {})[key] = (item.meta.namespace, item.meta.labels or {})

    def remove(self, item: Stored) -> None:
        """Forget an object."""
        key = id_of(item)
        for host in self._hosts.pop(key, ()):
            if self._by_host.get(host) == key:
                del self._by_host[host]
        self._labels.get(item.resource.kind, {}).pop(key, None)

    def at(self, urls: Iterable[Any]) -> Iterator[str]:
        """Return the objects that answer at these URLs. Those of others are left out."""
        yield from (self._by_host[host] for url in urls if (host := _host(str(url))) in self._by_host)

    def matching(self, kind: str, namespace: str, written: Json) -> Iterator[str]:
        """Return the objects of a kind in a namespace that a label selector matches; none if it makes no sense."""
        try:
            selector = msgspec.convert(written, LabelSelector).selector
        except msgspec.ValidationError:
            return
        for key, (home, labels) in self._labels.get(kind, {}).items():
            if home == namespace and selector.matches(labels):
                yield key


def uses(item: Stored, index: Index) -> tuple[str, ...]:
    """Return the ids of the objects that an object uses, sorted."""
    read = _LINKS.get(item.resource.kind)
    return tuple(sorted(set(read(item, index)))) if read else ()


def searches(item: Stored) -> bool:
    """Return whether the links of an object may change with other objects."""
    return item.resource.kind in _SEARCHERS


def _of_service(item: Stored, _: Index) -> Iterator[str]:
    yield _named(item, "Model", item.spec.get("modelRef"))


def _of_zerfoo(item: Stored, _: Index) -> Iterator[str]:
    spec = item.spec
    if spec.get("runtime", "zerfoo") == "zerfoo":
        return
    yield _named(item, "Model", spec.get("modelRef"))
    if canary := (spec.get("canary") or {}).get("modelRef"):
        yield _named(item, "Model", canary)


def _of_gateway(item: Stored, index: Index) -> Iterator[str]:
    spec = item.spec
    for provider in spec.get("providers") or ():
        yield from _service_ref(item, provider.get("serviceRef"))
    if selector := spec.get("serviceSelector"):
        yield from index.matching("InferenceService", item.meta.namespace, selector)
    yield from index.at(item.status.get("mcpServers") or ())


def _of_agent(item: Stored, _: Index) -> Iterator[str]:
    llm = (item.spec.get("agent") or {}).get("llm") or {}
    yield from _service_ref(item, llm.get("serviceRef"))
    yield from _gateway_ref(item, llm.get("gatewayRef"))


def _of_orchestrator(item: Stored, index: Index) -> Iterator[str]:
    spec, status = item.spec, item.status
    yield from _gateway_ref(item, (spec.get("gateway") or {}).get("gatewayRef"))
    named = [*((spec.get("a2a") or {}).get("agents") or ()), *((spec.get("mcp") or {}).get("servers") or ())]
    found = [*(status.get("discoveredAgents") or ()), *(status.get("discoveredMCPs") or ())]
    yield from index.at([*named, *found])


def _of_inference_model(item: Stored, _: Index) -> Iterator[str]:
    for assigned in item.status.get("assignments") or ():
        yield _named(item, "InferenceHost", assigned.get("host"))


_LINKS: Final[dict[str, Links]] = {
    "InferenceService": _of_service,
    "ZerfooInferenceService": _of_zerfoo,
    "Gateway": _of_gateway,
    "Agent": _of_agent,
    "Orchestrator": _of_orchestrator,
    "InferenceModel": _of_inference_model,
}
_SEARCHERS: Final = frozenset({"Gateway", "Orchestrator"})


def _named(item: Stored, kind: str, name: Any) -> str:
    return object_id(kind, item.meta.namespace, str(name or ""))


def _service_ref(item: Stored, ref: Json | None) -> Iterator[str]:
    if ref:
        yield _named(item, str(ref.get("kind") or "InferenceService"), ref.get("name"))


def _gateway_ref(item: Stored, ref: Json | None) -> Iterator[str]:
    if ref:
        yield _named(item, "Gateway", ref.get("name"))


def _host(url: str) -> str:
    """Return host and port of a URL; empty: it is none."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""
