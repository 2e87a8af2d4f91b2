"""Where pods are dialled whose addresses are routed nowhere: those of one machine, which listen on loopback.

`modelyard run --pod-network` names both networks, and `modelyard up` sets it. In a cluster there is nothing to map.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from modelyard.net.http_exchange import in_cluster

if TYPE_CHECKING:
    from modelyard.core.checks.service_address import ServiceAddress
    from modelyard.net.http_exchange import Locate


def through(networks: str) -> Locate:
    """Return what finds addresses of `SHOWN=REAL`, two IPv4 networks of the same size; empty: nothing is mapped.

    ValueError: the text makes no sense.
    """
    if not networks:
        return in_cluster
    shown, real = (IPv4Network(network) for network in networks.split("="))
    if shown.prefixlen != real.prefixlen:
        raise ValueError(f"{networks} names two networks of different sizes; write SHOWN=REAL")

    def locate(address: ServiceAddress) -> tuple[str, int]:
        host, port = in_cluster(address)
        if not address.ip or ":" in host or IPv4Address(host) not in shown:
            return host, port
        return str(real.network_address + (int(IPv4Address(host)) - int(shown.network_address))), port

    return locate
