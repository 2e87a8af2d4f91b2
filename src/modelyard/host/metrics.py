"""The Prometheus metrics of a host daemon. `routes` serves them; docs/guides/host.md lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from modelyard.host.wire import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

    from modelyard.host.memory import MemoryLedger
    from modelyard.host.model_worker import ModelWorker

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class HostMetrics:
    """Every metric of a daemon, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "modelyard_host_requests", "Requests to models by status code.", ("model", "code"), registry=registry
        )
        self._seconds = Histogram(
            "modelyard_host_first_byte_seconds",
            "Until the first byte of an answer.",
            ("model",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._evictions = Counter(
            "modelyard_host_evictions", "Models that gave way to memory pressure.", ("model",), registry=registry
        )

    def answered(self, model: str, code: int, seconds: float) -> None:
        """Count a request to a model, and how long its first byte took."""
        self._requests.labels(model, str(code)).inc()
        self._seconds.labels(model).observe(seconds)

    def evicted(self, model: str) -> None:
        """Count an eviction."""
        self._evictions.labels(model).inc()

    def bind(self, models: Iterable[ModelWorker], ledger: MemoryLedger) -> None:
        """Read the gauges from these whenever they are scraped."""
        self.registry.register(_Gauges(models, ledger))


class _Gauges(Collector):
    """What is read at the moment of a scrape, so that a model that is gone leaves nothing behind."""

    def __init__(self, models: Iterable[ModelWorker], ledger: MemoryLedger) -> None:
        self._models, self._ledger = models, ledger

    def collect(self) -> Iterator[Metric]:
        states = GaugeMetricFamily("modelyard_host_models", "Models by state.", labels=("state",))
        flying = GaugeMetricFamily("modelyard_host_in_flight", "Requests in flight.", labels=("model",))
        restarts = CounterMetricFamily("modelyard_host_restarts", "Restarts of an engine.", labels=("model",))
        found = list(self._models)
        for state in State:
            states.add_metric((state,), sum(worker.state is state for worker in found))
        for worker in found:
            flying.add_metric((worker.id,), worker.in_flight)
            restarts.add_metric((worker.id,), worker.restarts)
        yield from (states, flying, restarts)
        budget, free = self._ledger.budget, self._ledger.free
        yield GaugeMetricFamily("modelyard_host_memory_budget_bytes", "What models may take together.", value=budget)
        yield GaugeMetricFamily("modelyard_host_memory_free_bytes", "What no model has reserved.", value=free)
