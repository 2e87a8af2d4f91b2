"""The parts of Envoy's routes: matches, answers of Envoy itself, and the way to an engine.

Pure. Errors have the shape that clients of OpenAI's API expect, whether a route of ours or Envoy itself is their cause.
Some paths below `/.modelyard/` are for the operator and the kubelet; they show figures and can change little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelyard.kinds.shared.envoy import ADMIN, MOST_BODY_BYTES, TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

VERSION_PATH: Final = "/.modelyard/version"
"""Tells the configuration that is in force, since it is part of it."""
STATS_PATH: Final = "/.modelyard/stats"
"""Envoy's figures, in the format of Prometheus. The queries `usedonly` and `filter=REGEX` narrow them down."""
DRAINED_PATH: Final = "/.modelyard/drained"
"""Answers when nothing is in flight any more; see `envoy_drain`."""
POD_HEADER: Final = "x-modelyard-pod"
"""The response header of these paths that names the pod: behind a Service, any of them may answer."""
DRAIN_FILTER: Final = "drain"

# Only what has surely not reached an engine: all else may have been worked on, and would be done twice. Ten tries take
# about a second: time enough for the news that a pod has left, and little for a client that waits.
_SAFE_RETRIES: Final = {
    "retry_on": "connect-failure,refused-stream,reset-before-request",
    "num_retries": 10,
    "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.25s"},
    # A track whose pods are all out of reach must not fail its share of the requests: each try draws a track anew.
    "refresh_cluster_on_retry": True,
}


def route_table(routes: Iterable[Json], loaded: object) -> Json:
    """Return all routes of the listener for clients. `loaded` is what the version path answers."""
    every = [*_own_routes(loaded), *routes]
    host = {
        "name": TRAFFIC,
        "domains": ["*"],
        "routes": every,
        "retry_policy": _SAFE_RETRIES,
        # Envoy can send again only what it has kept. By default that is 1 MiB.
        "request_body_buffer_limit": MOST_BODY_BYTES,
    }
    return {"name": TRAFFIC, "virtual_hosts": [host]}


def _own_routes(loaded: object) -> list[Json]:
    pod = header(POD_HEADER, "%ENVIRONMENT(HOSTNAME)%")
    enabled = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {}}
    figures = {"cluster": ADMIN, "prefix_rewrite": "/stats/prometheus"}
    return [
        answer(on_path(VERSION_PATH), loaded, pod),
        {"match": on_path(STATS_PATH), "route": figures, "response_headers_to_add": [pod]},
        {**answer(on_path(DRAINED_PATH), {}, pod), "typed_per_filter_config": {DRAIN_FILTER: enabled}},
    ]


def from_pages(match: Json, origins: str) -> Json:
    """Return a match, of requests only that a browser sends for pages of these origins, a regular expression."""
    return {
        **match,
        "headers": [*match["headers"], {"name": "origin", "string_match": {"safe_regex": {"regex": origins}}}],
    }


def preflight(prefix: str, origins: str) -> Json:
    """Return the route that tells a browser that pages of these origins may send requests (CORS).

    The filter that Envoy has for it leaves routes out that Envoy answers itself.
    """
    asked = {"name": "access-control-request-method", "present_match": True}
    told = (
        header("access-control-allow-methods", "GET, POST"),
        # The star does not stand for this one.
        header("access-control-allow-headers", "*, authorization"),
        header("access-control-max-age", "600"),
    )
    match = from_pages({"prefix": prefix, "headers": [_method("OPTIONS"), asked]}, origins)
    return {"match": match, "direct_response": {"status": 204}, "response_headers_to_add": [*READABLE, *told]}


def on_path(path: str) -> Json:
    """Return a match of GET for one path, whatever its query."""
    return {"path": path, "headers": [_method("GET")]}


def posted_under(prefix: str) -> Json:
    """Return a match of POST for all paths that begin with a prefix."""
    return {"prefix": prefix, "headers": [_method("POST")]}


def _method(method: str) -> Json:
    return {"name": ":method", "string_match": {"exact": method}}


def header(name: str, value: str) -> Json:
    """Return a response header. In its value, `%...%` is a field of the request."""
    return {"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


READABLE: Final = (header("access-control-allow-origin", "%REQ(ORIGIN)%"), header("vary", "Origin"))
"""Response headers by which a browser lets the page read the answer that has sent the request."""


def answer(match: Json, body: object, *headers: Json) -> Json:
    """Return a route that Envoy answers itself, with 200 and JSON."""
    text = literal(msgspec.json.encode(body).decode())
    form = {"text_format_source": {"inline_string": text}, "content_type": "application/json"}
    added = {"response_headers_to_add": list(headers)} if headers else {}
    return {"match": match, "direct_response": {"status": 200, "body_format": form}, **added}


def refusal(match: Json, status: int, message: str, code: str) -> Json:
    """Return a route that Envoy answers with an error. In the message, `%...%` is a field of the request."""
    return {"match": match, "direct_response": {"status": status, "body_format": _error(message, code)}}


def literal(text: str) -> str:
    """Return text that has no fields of the request, fit for a message that has some."""
    return text.replace("%", "%%")


def way(**target: object) -> Json:
    """Return the action that leads to an engine. It may take as long as it takes."""
    return {"timeout": "0s", **target}


def own_errors() -> Json:
    """Return how Envoy words errors of its own: a body that is too large, and an engine out of reach."""
    size = {"op": "EQ", "value": {"default_value": 413, "runtime_key": "unused"}}
    too_large = _error("The request is too large", "request_too_large")
    away = _error("The server of the model does not answer: %LOCAL_REPLY_BODY%", "server_unavailable", "server_error")
    return {
        "mappers": [
            {"filter": {"status_code_filter": {"comparison": size}}, "body_format_override": too_large},
            # Any flag will do: Envoy sets one on its own errors and none on the answers of our routes.
            {"filter": {"response_flag_filter": {}}, "body_format_override": away},
        ]
    }


def _error(message: str, code: str, kind: str = "invalid_request_error") -> Json:
    return {"json_format": {"error": {"message": message, "type": kind, "code": code}}}
