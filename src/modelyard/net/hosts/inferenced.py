"""The dialect `inferenced`: the contract that `modelyard host` serves, and that of the daemon it is named after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from modelyard.core.conditions import Problem
from modelyard.core.hosts import HostReport, Pressure
from modelyard.core.reasons import Reason
from modelyard.core.text import clean
from modelyard.net.hosts.listing import by_id, entries, hosted, is_listing, number
from modelyard.net.hosts.verdicts import HostFailed, load_verdict, unexpected, unload_verdict

if TYPE_CHECKING:
    from modelyard.core.checks import Answer
    from modelyard.core.hosts import LoadModel, UnloadModel
    from modelyard.net.hosts.http import HostHttp

_MODELS = "/admin/models"
_NOT_SERVED = (404, 405)
_PRESSURES = {level.value: level for level in Pressure}


async def probe(http: HostHttp) -> HostReport:
    """Return what a host says of itself. A daemon without `/admin/models` is asked for the models that it serves."""
    health = await http.send("GET", "/healthz")
    if health.status != 200:
        raise HostFailed(unexpected(health, "/healthz"))
    path = _MODELS
    said = await http.send("GET", path)
    if said.status in _NOT_SERVED:
        path = "/v1/models"
        said = await http.send("GET", path)
    if said.status != 200:
        raise HostFailed(unexpected(said, path))
    if not is_listing(said.body):
        wrong = f"the host answers {path} with something else than a list of models"
        raise HostFailed(Problem(Reason.BAD_ANSWER, wrong, "check spec.endpoint and spec.protocol"))
    return _report(said.body)


async def load(http: HostHttp, call: LoadModel) -> Answer:
    """Have a model loaded."""
    memory = {"memory": call.memory} if call.memory else {}
    options = msgspec.to_builtins(call.options)
    # What is not asked for is left out: other daemons may not know it.
    more = {**memory, **({"options": options} if options else {}), **msgspec.to_builtins(call.terms)}
    return load_verdict(await http.send("POST", _MODELS, {"model": call.model, "owner": call.owner, **more}))


async def unload(http: HostHttp, call: UnloadModel) -> Answer:
    """Have a model unloaded, also by a daemon that knows no DELETE."""
    said = await http.send("DELETE", f"{_MODELS}/{quote(call.model, safe='')}")
    if said.status == 405:
        said = await http.send("POST", f"{_MODELS}/unload", {"model": call.model})
    return unload_verdict(said)


def _report(body: Any) -> HostReport:
    host = body.get("host") if isinstance(body, dict) else None
    told = host if isinstance(host, dict) else {}
    return HostReport(
        models=by_id(hosted(entry) for entry in entries(body)),
        total=number(told.get("memoryTotalBytes")) or 0,
        free=number(told.get("memoryFreeBytes")),
        version=clean(str(told.get("version", "")), 64),
        pressure=_PRESSURES.get(str(told.get("memoryPressure")).lower()),
    )
