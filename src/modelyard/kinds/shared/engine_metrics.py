"""Which metrics of a pod say how its model is served, for the figures of `--engine-metrics`. A PodMonitor's work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.checks.engine_metrics import EngineMetrics
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.engines import ENGINES
from modelyard.engines.measured import sample_names

if TYPE_CHECKING:
    from modelyard.core.objects import Json, Stored

_BY_CONTAINER: Final = {engine.container: engine for engine in ENGINES.values() if sample_names(engine.measures)}


def metrics_check(pod: Stored) -> EngineMetrics | None:
    """Return the check of the metrics of a pod; None: it is not ready, or no engine runs there that has any."""
    status = pod.status
    if pod.meta.deleting or not _is_ready(status):
        return None
    # An engine that we start has its port first, under the name http.
    served = ((_BY_CONTAINER.get(one["name"]), one.get("ports")) for one in pod.spec.get("containers", ()))
    for engine, ports in served:
        if engine and ports:
            address = ServiceAddress(pod.meta.namespace, pod.meta.name, ports[0]["containerPort"], status["podIP"])
            return EngineMetrics(address, pod.meta.uid, engine.name, sample_names(engine.measures))
    return None


def _is_ready(status: Json) -> bool:
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
    return ready and bool(status.get("podIP"))
