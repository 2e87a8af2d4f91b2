"""The dialect `ollama`: models are pinned in memory, because Ollama drops idle ones after minutes.

Ollama answers a pull when it is over, and gives it up when the connection ends. So that is one long request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from modelyard.core.conditions import Problem
from modelyard.core.hosts import HostedModel, HostReport
from modelyard.core.reasons import Reason
from modelyard.core.text import clean
from modelyard.net.hosts.listing import by_id, entries, hosted, is_listing
from modelyard.net.hosts.verdicts import MISSING, HostFailed, load_verdict, unexpected, unload_verdict

if TYPE_CHECKING:
    from modelyard.core.checks import Answer
    from modelyard.core.hosts import LoadModel, UnloadModel
    from modelyard.net.hosts.http import HostHttp, Said

_RUNNING = "/api/ps"
_FOR_EVER, _NOW = -1, 0
_NO_TEXT = "does not support generate"
"""What is said of a model of embeddings, which another path loads."""


async def probe(http: HostHttp) -> HostReport:
    """Return the models in memory. Ollama does not say how much memory there is."""
    version = await http.send("GET", "/api/version")
    if version.status != 200:
        raise HostFailed(unexpected(version, "/api/version"))
    said = await http.send("GET", _RUNNING)
    if said.status != 200:
        raise HostFailed(unexpected(said, _RUNNING))
    if not is_listing(said.body):
        wrong = f"the host answers {_RUNNING} with something else than a list of models"
        raise HostFailed(Problem(Reason.BAD_ANSWER, wrong, "check spec.endpoint and spec.protocol"))
    models = by_id(_model(entry) for entry in entries(said.body))
    number = version.body.get("version", "") if isinstance(version.body, dict) else ""
    return HostReport(models=models, version=clean(str(number), 64))


async def load(http: HostHttp, call: LoadModel) -> Answer:
    """Have a model loaded until further notice. One that the host does not have is `MISSING`."""
    said = await _keep(http, call.model, _FOR_EVER)
    if said.status == 400 and _NO_TEXT in said.message:
        said = await http.send("POST", "/api/embed", {"model": call.model, "input": "", "keep_alive": _FOR_EVER})
    verdict = load_verdict(said)
    return replace(verdict, value={MISSING: True}) if said.status == 404 else verdict


async def fetch(http: HostHttp, call: LoadModel) -> Answer:
    """Have a model pulled that the host does not have.

    Only then: a model that was made on the host is in no registry, and a host may have no way to one.
    """
    return load_verdict(await http.send("POST", "/api/pull", {"model": call.model, "stream": False}))


async def unload(http: HostHttp, call: UnloadModel) -> Answer:
    """Have a model unloaded. It stays on the disk of the host."""
    return unload_verdict(await _keep(http, call.model, _NOW))


async def _keep(http: HostHttp, model: str, keep_alive: int) -> Said:
    return await http.send("POST", "/api/generate", {"model": model, "keep_alive": keep_alive, "stream": False})


def _model(entry: dict[str, Any]) -> HostedModel:
    model = hosted(entry)
    return replace(model, id=model.id.removesuffix(":latest"))
