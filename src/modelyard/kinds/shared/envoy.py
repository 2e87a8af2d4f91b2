"""The parts of an Envoy configuration: bootstrap, listeners, clusters, watched files.

Pure: every function returns plain JSON for Envoy's v3 API. `envoy_door` and `envoy_router` put the parts together,
`envoy_pod` makes a pod of the result, and `local/envoy` starts its container on one machine. Envoy gets two things:

- The bootstrap is an argument of the container and stays the same for the life of a pod.
- The routes are a file in a folder that Envoy watches. A kubelet replaces the files of a ConfigMap by renaming a
  symlink in that folder; the node of one machine renames each file. In both cases something is moved into the folder,
  and then Envoy reads the file again. A file that it cannot use changes nothing.

An upstream is reached at the ClusterIP of its Service, with a new connection for every request:

- kube-proxy (on one machine the node) gives each new connection to a ready pod. A connection that is kept alive stays
  with its pod. When the pod closes it while a request is on its way, that request is lost: a POST must not be sent
  twice.
- A refused connection has carried nothing, so it is tried again. That covers the moment in which a pod has left and
  kube-proxy does not know it yet.
- A headless Service tells the addresses of pods through DNS and its caches, seconds late, and one machine has no DNS.
  Addresses of pods in the watched file would be later still: a kubelet renews ConfigMaps once a minute.

The price is a handshake, which is nothing beside a first token, and a local port for a minute. With the ports that
`envoy_pod` asks for, one pod can send about 1,000 requests per second to one Service.
"""

from __future__ import annotations

from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

ADMIN: Final = "admin"
"""The cluster that leads to Envoy's own admin interface."""
TRAFFIC: Final = "traffic"
"""The listener for clients, its routes, and the prefix of its figures."""
ROUTES_FILE: Final = "routes.json"
"""The file with the routes, which is also its key in the ConfigMap."""
MOST_BODY_BYTES: Final = 64 * 2**20
"""The largest request that Envoy keeps, to look into it or to send it again. Images are part of it, as base64."""
MOST_HEAP_BYTES: Final = 2**30
"""Above this Envoy answers new requests with 503, rather than be killed together with those that it has."""
SILENCE: Final = "3600s"
"""How long a request may wait for the next byte. An engine that does not stream is silent until its last token."""

_EXTENSIONS: Final = "type.googleapis.com/envoy.extensions."
_ROUTES_TYPE: Final = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
_MANAGER: Final = "filters.network.http_connection_manager.v3.HttpConnectionManager"
_PROTOCOL: Final = "upstreams.http.v3.HttpProtocolOptions"
_HEAP: Final = "envoy.resource_monitors.fixed_heap"
_CLIENTS: Final = "envoy.resource_monitors.global_downstream_max_connections"
_MOST_CONNECTIONS: Final = 10_000
# All that Envoy asks of itself. Whatever else the admin interface can do, such as /quitquitquit, answers 403.
_ADMIN_PATHS: Final = ({"exact": "/healthcheck/fail"}, {"prefix": "/stats/prometheus"})
# An address that no client has. With an empty list Envoy trusts every private address, and a trusted client may ask for
# unsafe retries with the header x-envoy-retry-on.
_TRUSTED: Final = {"cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}]}
# A peer whose node is gone would otherwise be waited for as long as one that thinks.
_KEEPALIVE: Final = {"keepalive_time": 60, "keepalive_interval": 10, "keepalive_probes": 3}


class Address(Struct, frozen=True):
    """A TCP address: an IP address or the DNS name of a Service, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_ip(self) -> bool:
        """Whether the host is an IP address."""
        try:
            ip_address(self.host)
        except ValueError:
            return False
        return True


class Proxy(Struct, frozen=True):
    """Where one Envoy listens, and which folder it watches."""

    listen: Address
    folder: str
    """Where its ConfigMap is mounted."""
    admin: Address = Address("127.0.0.1", 9901)
    """Where the admin interface listens. It must be a loopback address: the interface asks for no password."""


class Files(Struct, frozen=True):
    """The data of the ConfigMap that one Envoy watches."""

    version: str
    """What the Envoy tells at `/.modelyard/version` as soon as these files are in force. Equal files, equal version."""
    data: dict[str, str]


def extension(kind: str, **fields: object) -> Json:
    """Return the configuration of an Envoy extension, such as `filters.http.router.v3.Router`."""
    return {"@type": _EXTENSIONS + kind, **fields}


def named(name: str, kind: str, **fields: object) -> Json:
    """Return an Envoy extension under a name, as lists of filters hold them."""
    return {"name": name, "typed_config": extension(kind, **fields)}


def bootstrap(admin: Address, listeners: Iterable[Json], clusters: Iterable[Json], **more: object) -> Json:
    """Return the bootstrap of one Envoy, with bounds and with an admin interface that can do little."""
    return {
        # Envoy wants a name before it watches a file. It tells it to no server.
        "node": {"id": "modelyard", "cluster": "modelyard"},
        "admin": {"address": socket_address(admin), "allow_paths": list(_ADMIN_PATHS)},
        "static_resources": {
            "listeners": list(listeners),
            "clusters": [*clusters, cluster(ADMIN, socket_address(admin))],
        },
        "overload_manager": _bounds(),
        # The times of answers are told after a flush only. By default they are five seconds behind.
        "stats_flush_interval": "1s",
        **more,
    }


def listener(name: str, where: Json, filters: Iterable[Json], **settings: object) -> Json:
    """Return an HTTP listener. Clients and engines see each other's headers, and next to nothing of Envoy."""
    router = named("router", "filters.http.router.v3.Router", suppress_envoy_headers=True)
    manager = named(
        name,
        _MANAGER,
        stat_prefix=name,
        http_filters=[*filters, router],
        stream_idle_timeout=SILENCE,
        request_headers_timeout="30s",
        server_header_transformation="PASS_THROUGH",
        generate_request_id=False,
        use_remote_address=True,
        internal_address_config=_TRUSTED,
        # nginx speaks HTTP/1.0 to what is behind it unless told otherwise.
        http_protocol_options={"accept_http_10": True},
        **settings,
    )
    return {"name": name, **where, "filter_chains": [{"filters": [manager]}]}


def traffic_listener(proxy: Proxy, filters: Iterable[Json], **settings: object) -> Json:
    """Return the listener for clients. Its routes come from the watched folder."""
    watched = {"path": f"{proxy.folder}/{ROUTES_FILE}", "watched_directory": {"path": proxy.folder}}
    source = {"resource_api_version": "V3", "path_config_source": watched}
    routes = {"route_config_name": TRAFFIC, "config_source": source}
    return listener(TRAFFIC, {"address": socket_address(proxy.listen)}, filters, rds=routes, **settings)


def routes_file(version: str, table: Json) -> Files:
    """Return the files of an Envoy whose routes these are."""
    text = msgspec.json.encode({"version_info": version, "resources": [{"@type": _ROUTES_TYPE, **table}]})
    return Files(version, {ROUTES_FILE: text.decode()})


def version_of(content: object) -> str:
    """Return a short name for a configuration. Equal content has equal names."""
    return sha256(msgspec.json.encode(content)).hexdigest()[:12]


def service_cluster(name: str, service: Address) -> Json:
    """Return the cluster of a Service, by its ClusterIP or by its DNS name, which leads to the ClusterIP."""
    return cluster(name, socket_address(service), "STATIC" if service.is_ip else "STRICT_DNS")


def cluster(name: str, where: Json, kind: str = "STATIC") -> Json:
    """Return a cluster of one address."""
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": where}}]}]
    assignment = {"cluster_name": name, "endpoints": endpoints}
    return {**cluster_base(name), "type": kind, "load_assignment": assignment}


def cluster_base(name: str) -> Json:
    """Return what all clusters have in common: HTTP/1.1, and a new connection for every request."""
    protocol = extension(
        _PROTOCOL,
        explicit_http_config={"http_protocol_options": {}},
        common_http_protocol_options={"max_requests_per_connection": 1},
    )
    return {
        "name": name,
        "connect_timeout": "2s",
        "dns_lookup_family": "ALL",
        "typed_extension_protocol_options": {f"envoy.extensions.{_PROTOCOL}": protocol},
        "upstream_connection_options": {"tcp_keepalive": _KEEPALIVE},
        "circuit_breakers": {"thresholds": [_limits()]},
    }


def socket_address(address: Address) -> Json:
    """Return a TCP address as Envoy spells it."""
    return {"socket_address": {"address": address.host, "port_value": address.port}}


def _limits() -> Json:
    # Envoy's own limits, 1,024 connections and 3 retries at a time, refuse what engines are made to queue.
    return dict.fromkeys(("max_connections", "max_pending_requests", "max_requests", "max_retries"), _MOST_CONNECTIONS)


def _bounds() -> Json:
    heap = named(_HEAP, "resource_monitors.fixed_heap.v3.FixedHeapConfig", max_heap_size_bytes=MOST_HEAP_BYTES)
    clients = named(
        _CLIENTS,
        "resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        max_active_downstream_connections=_MOST_CONNECTIONS,
    )
    full = {"name": _HEAP, "threshold": {"value": 0.95}}
    return {
        "resource_monitors": [heap, clients],
        "actions": [{"name": "envoy.overload_actions.stop_accepting_requests", "triggers": [full]}],
    }
