"""The Prometheus metrics of the operator. `health` serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from modelyard.engines.measured import FIGURES

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.core.resources import Resource
    from modelyard.engines.measured import Measured
    from modelyard.runtime.cache import OwnerKey

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Every metric of the operator, in a registry of its own. docs/guides/operating.md lists them."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._reconciles = Counter(
            "modelyard_reconciles", "Reconciles by kind and outcome.", ("kind", "outcome"), registry=registry
        )
        self._seconds = Histogram(
            "modelyard_reconcile_seconds", "How long a reconcile took.", ("kind",), buckets=_BUCKETS, registry=registry
        )
        self._requests = Counter(
            "modelyard_api_requests", "Requests to the API server.", ("verb", "resource", "code"), registry=registry
        )
        self._api_seconds = Histogram(
            "modelyard_api_seconds", "How long the API server took.", ("verb",), buckets=_BUCKETS, registry=registry
        )
        self._restarts = Counter(
            "modelyard_watch_restarts", "Watches that had to be opened again.", ("resource",), registry=registry
        )
        self._children = Counter(
            "modelyard_child_differences",
            "Children found changed (repaired) or not kept as written (not_kept).",
            ("what", "resource"),
            registry=registry,
        )
        self._gauges = {
            name: Gauge(f"modelyard_{name}", text, registry=registry)
            for name, text in (
                ("queue_depth", "Objects that wait for a worker."),
                ("queue_age_seconds", "How long the oldest of them has waited."),
                ("leader", "1 when this replica leads."),
            )
        }
        self._objects = Gauge("modelyard_objects", "Objects by kind.", ("kind",), registry=registry)
        self._figures = [
            (figure, Gauge(figure.name, figure.text, ("namespace", "kind", "name"), registry=registry))
            for figure in FIGURES
        ]

    def reconciled(self, kind: str, outcome: str, seconds: float) -> None:
        """Count one reconcile, by kind and outcome, and its duration."""
        self._reconciles.labels(kind, outcome).inc()
        self._seconds.labels(kind).observe(seconds)

    def requested(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count one request to the API server, by verb, resource and status code, and its duration."""
        self._requests.labels(verb, resource, str(code)).inc()
        self._api_seconds.labels(verb).observe(seconds)

    def watch_restarted(self, resource: Resource) -> None:
        """Count a watch that had to be opened again."""
        self._restarts.labels(resource.label).inc()

    def child_differed(self, what: str, resource: str) -> None:
        """Count a child that was repaired, or not kept as it was written."""
        self._children.labels(what, resource).inc()

    def bind_gauge(self, gauge: str, source: Callable[[], float]) -> None:
        """Let a gauge call `source` for its value whenever it is scraped."""
        self._gauges[gauge].set_function(source)

    def bind_object_count(self, kind: str, source: Callable[[], float]) -> None:
        """Let the gauge of the objects of a kind call `source` for its value."""
        self._objects.labels(kind).set_function(source)

    def show_figures(self, owner: OwnerKey, found: Measured | None) -> None:
        """Show the figures of an object that is served; None: it has none (any more)."""
        for figure, gauge in self._figures:
            labels = (owner.namespace, owner.kind, owner.name)
            if found is None or (value := figure.value(found)) is None:
                gauge.remove(*labels)
            else:
                gauge.labels(*labels).set(value)
