"""How the pod of an Envoy ends without cutting off an answer.

Envoy exits at once on SIGTERM. So a preStop hook asks it for `/.modelyard/drained`, and a script inside Envoy answers
when nothing has been in flight for some seconds. First it makes Envoy close the connection of each client after the
next answer: a client that keeps its connection alive would go on sending requests to a pod that leaves. The image has
no shell that could do this from outside, and the hook works on one machine too.

A script cannot sleep. Instead it gets its figures through an internal listener that passes everything on a second late.

Pure. The counterpart in Kubernetes is the end of a pod: its endpoint is removed, the hook runs, then comes SIGTERM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.kinds.shared import envoy
from modelyard.kinds.shared.envoy_routes import DRAIN_FILTER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.kinds.shared.envoy import Proxy

Json = dict[str, Any]

QUIET_SECONDS: Final = 5
"""How long nothing may be in flight before a pod ends. It takes a moment until all know that its endpoint is gone."""

_LATE: Final = "late"
_LONGEST_SECONDS: Final = 24 * 3600
_FIGURE: Final = f"/stats/prometheus?filter=^http.{envoy.TRAFFIC}.downstream_rq_active"
# One request in flight is that of the hook itself. There is no dollar sign in here: a kubelet would expand `$(...)`.
_SCRIPT: Final = f"""
local function ask(request, cluster, method, path)
  local headers = {{[":method"] = method, [":path"] = path, [":authority"] = cluster}}
  local _, body = request:httpCall(cluster, headers, nil, 5000)
  return body or ""
end

function envoy_on_request(request)
  ask(request, "{envoy.ADMIN}", "POST", "/healthcheck/fail")
  local quiet = 0
  for _ = 1, {_LONGEST_SECONDS} do
    local active = ask(request, "{_LATE}", "GET", "{_FIGURE}"):match("}} (%d+)")
    quiet = active == "1" and quiet + 1 or 0
    if quiet == {QUIET_SECONDS} then return end
  end
end
"""


def drainable_bootstrap(proxy: Proxy, filters: Iterable[Json], clusters: Iterable[Json], **settings: object) -> Json:
    """Return the bootstrap of an Envoy that the preStop hook can drain. The settings are those of its listener."""
    extension = envoy.named("envoy.bootstrap.internal_listener", "bootstrap.internal_listener.v3.InternalListener")
    return envoy.bootstrap(
        proxy.admin,
        [envoy.traffic_listener(proxy, [_drain_filter(), *filters], **settings), _late_listener()],
        [*clusters, envoy.cluster(_LATE, {"envoy_internal_address": {"server_listener_name": _LATE}})],
        bootstrap_extensions=[extension],
    )


def _drain_filter() -> Json:
    """Return the filter that holds a request until Envoy is drained. It is off, but for the route that enables it."""
    script = envoy.named(DRAIN_FILTER, "filters.http.lua.v3.Lua", default_source_code={"inline_string": _SCRIPT})
    return {**script, "disabled": True}


def _late_listener() -> Json:
    """Return the internal listener, which passes requests on to the admin interface a second late."""
    delay = {"fixed_delay": "1s", "percentage": {"numerator": 100}}
    route = {"match": {"prefix": "/"}, "route": {"cluster": envoy.ADMIN}}
    return envoy.listener(
        _LATE,
        {"internal_listener": {}},
        [envoy.named("delay", "filters.http.fault.v3.HTTPFault", delay=delay)],
        route_config={"virtual_hosts": [{"name": _LATE, "domains": ["*"], "routes": [route]}]},
    )
