"""What Prometheus needs to tell the figures of `modelyard_engine_*` by itself: pods to scrape, and recording rules.

For a cluster with Prometheus, instead of `modelyard run --engine-metrics`. The objects are those of the Prometheus
operator; without it, `recording_rules` is the `groups` of a rule file. What engines call their metrics is in their
`measures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core import names
from modelyard.engines import ENGINES
from modelyard.engines.measured import FIRST_TOKEN, KV_CACHE, RUNNING, TOKENS, WAITING, sample_names
from modelyard.manifests.rbac import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.objects import Json

_NAME: Final = "modelyard-engines"
_API: Final = "monitoring.coreos.com/v1"
_BY: Final = "by (namespace, kind, name)"
_WINDOW: Final = "5m"
_MEASURED: Final = tuple(engine for engine in ENGINES.values() if sample_names(engine.measures))


def monitoring() -> list[Json]:
    """Return the objects of `deploy/monitoring.yaml`."""
    return [pod_monitor(), _object("PrometheusRule", {"groups": recording_rules()})]


def pod_monitor() -> Json:
    """Return the PodMonitor of all pods in which an engine runs, of all kinds."""
    endpoint = {
        "port": "http",
        "path": "/metrics",
        "relabelings": [
            # Routers have a port of this name, too, and would be scraped in vain.
            _relabel("container_name", action="keep", regex="|".join(engine.container for engine in _MEASURED)),
            _relabel(f"label_{_label(names.KIND_LABEL)}", targetLabel="kind"),
            _relabel(f"label_{_label(names.INSTANCE_LABEL)}", targetLabel="name"),
        ],
    }
    spec = {
        "namespaceSelector": {"any": True},
        "selector": {"matchLabels": {names.MANAGED_BY: names.MANAGER}},
        "podMetricsEndpoints": [endpoint],
    }
    return _object("PodMonitor", spec)


def recording_rules() -> list[Json]:
    """Return the groups of rules that record the figures under our names, whichever engine tells them."""
    each = [engine.measures for engine in _MEASURED]
    tokens = _either(f"rate({one.tokens}[{_WINDOW}])" for one in each if one.tokens)
    running, waiting = _either(one.running for one in each), _either(one.waiting for one in each)
    records = {
        TOKENS.name: f"sum {_BY} ({tokens})",
        FIRST_TOKEN.name: f"{_delays('sum')} / ({_delays('count')} > 0)",
        RUNNING.name: f"sum {_BY} ({running})",
        WAITING.name: f"sum {_BY} ({waiting})",
        KV_CACHE.name: f"avg {_BY} ({_either(name for one in each for name in one.kv_cache)})",
    }
    return [{"name": _NAME, "rules": [{"record": name, "expr": query} for name, query in records.items()]}]


def _delays(part: str) -> str:
    told = (engine.measures.delay for engine in _MEASURED)
    return f"sum {_BY} ({_either(f'rate({name}_{part}[{_WINDOW}])' for name in told if name)})"


def _either(queries: Iterable[str]) -> str:
    return " or ".join(filter(None, queries))


def _relabel(source: str, **how: str) -> Json:
    return {"sourceLabels": [f"__meta_kubernetes_pod_{source}"], **how}


def _label(name: str) -> str:
    """Return a label of Kubernetes as Prometheus spells it."""
    return "".join(char if char.isalnum() else "_" for char in name)


def _object(kind: str, spec: Json) -> Json:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": _NAME, "namespace": NAMESPACE}, "spec": spec}
