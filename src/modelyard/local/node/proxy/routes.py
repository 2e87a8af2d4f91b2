"""Which address each port of each Service listens on, and which endpoints answer it. Pure.

`service_proxy` calls it for every change. As in kube-proxy only ready endpoints answer, or, if there is none, those
that serve while they terminate. Ports other than TCP and headless Services have no route.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.resources import Key
from modelyard.local.node.proxy.addresses import MANY, HostPort, listen_choices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.core.objects import Stored

_SERVICE_NAME: Final = "kubernetes.io/service-name"
NO_ADDRESS: Final = frozenset({"", "None"})
"""The ClusterIPs of Services that have none: headless ones, and those that stand for an external name."""
_LOCALHOST: Final = "127.0.0.1"


class Route(Struct, frozen=True):
    """One port of a Service."""

    service: Key
    port: int
    """The port of the Service; 0: the `nodePort` on 127.0.0.1."""
    choices: tuple[HostPort, ...]
    """The addresses on which it may listen, best first."""
    endpoints: tuple[HostPort, ...] = ()
    """The endpoints, by the addresses that the cluster is shown; empty: none is ready."""


class _Port(Struct, frozen=True, rename="camel"):
    port: int
    name: str = ""
    protocol: str = "TCP"
    node_port: int = 0


class _Service(Struct, frozen=True):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: tuple[_Port, ...] = ()


class _Conditions(Struct, frozen=True):
    ready: bool | None = None
    serving: bool | None = None


class _Endpoint(Struct, frozen=True):
    addresses: tuple[str, ...]
    conditions: _Conditions = _Conditions()


class _EndpointPort(Struct, frozen=True):
    port: int | None = None
    name: str | None = None
    protocol: str | None = None


class _Slice(Struct, frozen=True, rename="camel"):
    address_type: str
    endpoints: tuple[_Endpoint, ...] | None = None
    ports: tuple[_EndpointPort, ...] | None = None


class _Answering(Struct):
    """The endpoints of one port of one Service."""

    ready: set[HostPort] = msgspec.field(default_factory=set)
    leaving: set[HostPort] = msgspec.field(default_factory=set)

    def addresses(self) -> tuple[HostPort, ...]:
        return tuple(sorted(self.ready or self.leaving))


def routes(services: Iterable[Stored], slices: Iterable[Stored], *, many: bool = MANY) -> list[Route]:
    """Return a route for each TCP port of these Services, with the endpoints of these EndpointSlices."""
    answering: defaultdict[tuple[Key, str], _Answering] = defaultdict(_Answering)
    for item in slices:
        _sort(item, answering)
    return [
        Route(item.meta.key, port, choices, answering[item.meta.key, name].addresses())
        for item in services
        if not item.meta.deleting
        for port, name, choices in _doors(item, many=many)
    ]


def _doors(item: Stored, *, many: bool) -> Iterator[tuple[int, str, tuple[HostPort, ...]]]:
    service = msgspec.json.decode(item.parts["spec"], type=_Service)
    if service.cluster_ip in NO_ADDRESS:
        return
    for port in service.ports:
        if port.protocol != "TCP":
            continue
        yield port.port, port.name, tuple(listen_choices(service.cluster_ip, port.port, many=many))
        if port.node_port:
            yield 0, port.name, (HostPort(_LOCALHOST, port.node_port),)


def _sort(item: Stored, answering: defaultdict[tuple[Key, str], _Answering]) -> None:
    slice_ = msgspec.convert({name: item.part(name) for name in item.parts}, _Slice)
    service = Key(item.meta.namespace, item.meta.label(_SERVICE_NAME))
    if slice_.address_type == "FQDN":
        return
    for port in slice_.ports or ():
        if port.port is None or port.protocol not in {None, "TCP"}:
            continue
        found = answering[service, port.name or ""]
        for endpoint in slice_.endpoints or ():
            addresses = [HostPort(address, port.port) for address in endpoint.addresses[:1]]
            # By the API of EndpointSlices a missing `ready` means true.
            if endpoint.conditions.ready is not False:
                found.ready.update(addresses)
            elif endpoint.conditions.serving:
                found.leaving.update(addresses)
