"""One door for all models: an Envoy that routes requests by the `model` of their JSON body.

Pure. On a cluster a Deployment and a ConfigMap are made of it, on one machine a process. To clients it is one server
of OpenAI's API: `POST /v1/...` goes to the server of the model, `GET /v1/models` lists all models. A request is read to
its end before it is passed on, up to 64 MiB; an answer is passed on as it comes.

Each route carries the address of its backend, and one cluster leads to all of them. With a cluster for each there would
be two files, of which Envoy may read the second a moment later, and a route to a cluster that is missing answers 503.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from msgspec import Struct

from modelyard.kinds.shared import envoy
from modelyard.kinds.shared.envoy import MOST_BODY_BYTES, Address, Files, Proxy
from modelyard.kinds.shared.envoy_drain import drainable_bootstrap
from modelyard.kinds.shared.envoy_routes import (
    READABLE,
    answer,
    from_pages,
    literal,
    on_path,
    own_errors,
    posted_under,
    preflight,
    refusal,
    route_table,
    way,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

_API: Final = "/v1"
_BACKENDS: Final = "backends"
_ADDRESS_FILTER: Final = "address"
# Chat pages that a program of the user's own machine serves. Of other sites the door tells nothing; what engines tell
# browsers themselves is passed on, as without a door.
_PAGES: Final = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?"
_DNS: Final[Json] = {"dns_cache_config": {"name": _BACKENDS, "dns_lookup_family": "ALL"}}
# What the filter that reads the body found there: the model, or why there is none.
_FOUND: Final = "modelyard"
_MODEL, _PROBLEM = "model", "problem"
_MISSING, _NOT_JSON = "missing", "not-json"
# The name as it was sent, cut off: it comes from a stranger.
_ASKED: Final = f"%DYNAMIC_METADATA({_FOUND}:{_MODEL}):128%"


class Backend(Struct, frozen=True):
    """The Service of one model."""

    names: tuple[str, ...]
    """What clients may call the model: the name of its service, and its served name."""
    address: Address
    path: str = _API
    """Where its server has OpenAI's API."""
    created: int = 0
    """When it was created, in seconds since 1970. OpenAI's list of models tells it."""


def claims(backends: Iterable[Backend]) -> dict[str, Backend]:
    """Return which backend answers to which name. A name belongs to the first that claims it: give the oldest first."""
    found: dict[str, Backend] = {}
    for backend in backends:
        for name in backend.names:
            found.setdefault(name, backend)
    return found


def door_bootstrap(proxy: Proxy) -> Json:
    """Return the bootstrap of a door. It does not depend on the models."""
    return drainable_bootstrap(
        proxy,
        [_body_filter(), _model_filter(), _address_filter()],
        [_backends_cluster()],
        local_reply_config=own_errors(),
        # Else /v1/../slots is a path of the API.
        normalize_path=True,
    )


def door_files(backends: Iterable[Backend]) -> Files:
    """Return the routes of a door to these backends, the oldest first."""
    claimed = claims(backends)
    routes = [*_lists(claimed), *_requests(claimed)]
    version = envoy.version_of(routes)
    return envoy.routes_file(version, route_table(routes, {"version": version}))


def _body_filter() -> Json:
    """Return the filter that reads a request to its end.

    The buffer of the connection would have to be as large, and answers for a slow client would pile up there.
    """
    return envoy.named("body", "filters.http.buffer.v3.Buffer", max_request_bytes=MOST_BODY_BYTES)


def _model_filter() -> Json:
    """Return the filter that looks for `model` in the body, after which Envoy chooses the route anew."""
    rule = {
        "selectors": [{"key": "model"}],
        "on_present": {"metadata_namespace": _FOUND, "key": _MODEL},
        "on_missing": {"metadata_namespace": _FOUND, "key": _PROBLEM, "value": _MISSING},
        "on_error": {"metadata_namespace": _FOUND, "key": _PROBLEM, "value": _NOT_JSON},
    }
    # curl calls its JSON a form, others add a charset or say nothing: what counts is the body.
    any_type = {"allow_empty_content_type": True, "allow_content_types_regex": {"regex": ".*"}}
    rules = {"rules": [rule], **any_type}
    return envoy.named("model", "filters.http.json_to_metadata.v3.JsonToMetadata", request_rules=rules)


def _address_filter() -> Json:
    """Return the filter that looks up the address which the route carries."""
    return envoy.named(_ADDRESS_FILTER, "filters.http.dynamic_forward_proxy.v3.FilterConfig", **_DNS)


def _backends_cluster() -> Json:
    # What Envoy calls insecure is a cluster without TLS, as the Services of engines are.
    kind = envoy.named(
        "envoy.clusters.dynamic_forward_proxy",
        "clusters.dynamic_forward_proxy.v3.ClusterConfig",
        allow_insecure_cluster_options=True,
        **_DNS,
    )
    return {**envoy.cluster_base(_BACKENDS), "lb_policy": "CLUSTER_PROVIDED", "cluster_type": kind}


def _lists(claimed: dict[str, Backend]) -> list[Json]:
    models = {name: _model(name, backend) for name, backend in claimed.items()}
    asked, listed = on_path(f"{_API}/models"), {"object": "list", "data": list(models.values())}
    return [
        answer(on_path("/health"), {"status": "ok"}),
        preflight(f"{_API}/", _PAGES),
        answer(from_pages(asked, _PAGES), listed, *READABLE),
        answer(asked, listed),
        *(answer(on_path(path), model) for name, model in models.items() for path in _model_paths(name)),
    ]


def _model(name: str, backend: Backend) -> Json:
    return {"id": name, "object": "model", "created": backend.created, "owned_by": "modelyard"}


def _model_paths(name: str) -> list[str]:
    """Return the paths of one model. Clients differ in whether they escape the slashes and colons of its name."""
    return list(dict.fromkeys(f"{_API}/models/{quote(name, safe=safe)}" for safe in ("", ":", "/", "/:")))


def _requests(claimed: dict[str, Backend]) -> list[Json]:
    there = literal(f"there are: {', '.join(claimed)}" if claimed else "no model is served yet")
    names: dict[Backend, list[str]] = {}
    for name, backend in claimed.items():
        names.setdefault(backend, []).append(name)
    posted, anything = posted_under(f"{_API}/"), {"prefix": "/"}
    missing, not_json = {**posted, **_found(_PROBLEM, _MISSING)}, {**posted, **_found(_PROBLEM, _NOT_JSON)}
    return [
        *(_to(backend, own) for backend, own in names.items()),
        refusal(missing, 400, f"The request names no model; set `model`, {there}", "model_missing"),
        refusal(not_json, 400, "The body of the request is not JSON", "invalid_json"),
        refusal(posted, 404, f"There is no model '{_ASKED}' here; {there}", "model_not_found"),
        refusal(anything, 404, f"There is nothing here; try GET {_API}/models or POST {_API}/...", "not_found"),
    ]


def _to(backend: Backend, names: list[str]) -> Json:
    elsewhere = {} if backend.path == _API else {"prefix_rewrite": f"{backend.path.rstrip('/')}/"}
    kind = "filters.http.dynamic_forward_proxy.v3.PerRouteConfig"
    chosen = envoy.extension(kind, host_rewrite_literal=str(backend.address))
    return {
        "match": {"prefix": f"{_API}/", **_found(_MODEL, *names)},
        "route": way(cluster=_BACKENDS, **elsewhere),
        "typed_per_filter_config": {_ADDRESS_FILTER: chosen},
    }


def _found(key: str, *values: str) -> Json:
    """Return a match of what was found in the body: any of these values."""
    each = [{"string_match": {"exact": value}} for value in values]
    # Envoy refuses a choice of one.
    match = each[0] if len(each) == 1 else {"or_match": {"value_matchers": each}}
    return {"dynamic_metadata": [{"filter": _FOUND, "path": [{"key": key}], "value": match}]}
