"""The dialect `llamacpp`: llama-server in router mode, which starts one server per model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core.conditions import Problem
from modelyard.core.hosts import HostReport
from modelyard.core.reasons import Reason
from modelyard.net.hosts.listing import by_id, entries, hosted, is_listing
from modelyard.net.hosts.verdicts import HostFailed, load_verdict, unexpected, unload_verdict

if TYPE_CHECKING:
    from modelyard.core.checks import Answer
    from modelyard.core.hosts import LoadModel, UnloadModel
    from modelyard.net.hosts.http import HostHttp

_MODELS = "/models"
_ON_DISK = "unloaded"


async def probe(http: HostHttp) -> HostReport:
    """Return the models that are loaded or on their way. The router does not say how much memory there is."""
    health = await http.send("GET", "/health")
    if health.status != 200:
        raise HostFailed(unexpected(health, "/health"))
    said = await http.send("GET", _MODELS)
    if said.status != 200:
        raise HostFailed(unexpected(said, _MODELS))
    if not is_listing(said.body):
        wrong = f"the host answers {_MODELS} with something else than a list of models"
        raise HostFailed(Problem(Reason.BAD_ANSWER, wrong, "check spec.endpoint and spec.protocol"))
    flat = map(_flat, entries(said.body))
    return HostReport(models=by_id(hosted(entry) for entry in flat if entry["state"] != _ON_DISK))


async def load(http: HostHttp, call: LoadModel) -> Answer:
    """Have a model loaded that the router has, or knows where to get."""
    return load_verdict(await http.send("POST", f"{_MODELS}/load", {"model": call.model}))


async def unload(http: HostHttp, call: UnloadModel) -> Answer:
    """Have a model unloaded. It stays on the disk of the host."""
    return unload_verdict(await http.send("POST", f"{_MODELS}/unload", {"model": call.model}))


def _flat(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with its state as text: the router nests it, and tells a failure by a flag."""
    status = entry.get("status")
    told = status if isinstance(status, dict) else {"value": status or "loaded"}
    if told.get("failed"):
        return {**entry, "state": "failed", "error": f"its server ended with exit code {told.get('exit_code', '?')}"}
    return {**entry, "state": str(told.get("value", "loaded")), "progress": told.get("progress")}
