"""The router of a canary: an Envoy that splits the requests of a Service between tracks by weight.

Pure. On a cluster and on one machine a Deployment and a ConfigMap are made of it, and new weights are written into the
ConfigMap. The clusters are part of the bootstrap, for each track has a Service as long as there is a router. In the
figures at `/.modelyard/stats` a track is an `envoy_cluster_name`; `envoy_stats` reads them.

The counterpart in Kubernetes is an HTTPRoute with weighted backends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.kinds.shared import envoy
from modelyard.kinds.shared.envoy_drain import drainable_bootstrap
from modelyard.kinds.shared.envoy_routes import header, own_errors, route_table, way

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.kinds.shared.envoy import Address, Files, Proxy

Json = dict[str, Any]

TRACK_HEADER: Final = "x-modelyard-track"
"""The response header that names the track which answered."""


class Loaded(Struct, frozen=True):
    """What a router says at `/.modelyard/version` that it has loaded."""

    version: str
    weights: dict[str, int]


def router_bootstrap(proxy: Proxy, tracks: Mapping[str, Address]) -> Json:
    """Return the bootstrap of a router between these Services. It does not depend on the weights."""
    return drainable_bootstrap(
        proxy,
        [],
        [envoy.service_cluster(track, service) for track, service in tracks.items()],
        local_reply_config=own_errors(),
        upgrade_configs=[{"upgrade_type": "websocket"}],
    )


def router_files(weights: Mapping[str, int]) -> Files:
    """Return the routes of a router that gives each track its share of the requests."""
    shared = shares(weights)
    clusters = [
        {"name": track, "weight": weight, "response_headers_to_add": [header(TRACK_HEADER, track)]}
        for track, weight in shared.items()
    ]
    routes = [{"match": {"prefix": "/"}, "route": way(weighted_clusters={"clusters": clusters})}]
    version = envoy.version_of(routes)
    return envoy.routes_file(version, route_table(routes, Loaded(version, shared)))


def shares(weights: Mapping[str, int]) -> dict[str, int]:
    """Return the tracks that get requests. If none has a weight the first gets all: to serve none is never meant."""
    weighted = {track: weight for track, weight in weights.items() if weight > 0}
    return weighted or dict.fromkeys(list(weights)[:1], 100)


def loaded(answer: bytes) -> Loaded | None:
    """Return what a router said that it has loaded; None: that was no router, but perhaps an engine without one."""
    try:
        said = msgspec.json.decode(answer, type=Loaded)
    except msgspec.DecodeError:
        return None
    # A file that was written by hand may say anything. Ours always has a share to give.
    return said if sum(said.weights.values()) > 0 else None
