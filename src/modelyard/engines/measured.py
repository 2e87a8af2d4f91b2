"""The figures of a model that is served, under one set of names whichever engine serves it: `modelyard_engine_*`.

Pure. `runtime/engine_figures.py` publishes them from what `net/engine_metrics.py` reads, `manifests/recording_rules.py`
has Prometheus work out the same, and a command line can do so from two readings. The names of the engines are in
`Engine.measures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from modelyard.engines.contract import Measures


class Reading(Struct, frozen=True):
    """Samples of one metrics page, and when it was read, in monotonic seconds."""

    at: float
    samples: Mapping[str, Sequence[float]]
    """The values of a metric by its name, one for each set of its labels."""


class Measured(Struct, frozen=True):
    """The figures of one server, or of several together; None: the engine does not tell, or not yet."""

    tokens_per_second: float | None = None
    requests_running: float | None = None
    requests_waiting: float | None = None
    kv_cache_usage: float | None = None
    first_tokens: float = 0.0
    """How many answers began since the reading before."""
    first_token_seconds: float = 0.0
    """How long they took to begin, together."""

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds until an answer begins, on average; None: none has begun since the reading before."""
        return self.first_token_seconds / self.first_tokens if self.first_tokens else None


class Figure(Struct, frozen=True):
    """One of the figures, as a gauge."""

    name: str
    text: str
    unit: str
    """As Grafana calls it."""
    value: Callable[[Measured], float | None]


TOKENS: Final = Figure(
    "modelyard_engine_tokens_per_second",
    "Tokens generated per second.",
    "short",
    lambda measured: measured.tokens_per_second,
)
FIRST_TOKEN: Final = Figure(
    "modelyard_engine_time_to_first_token_seconds",
    "Seconds until an answer begins, on average; absent while none begins.",
    "s",
    lambda measured: measured.time_to_first_token,
)
RUNNING: Final = Figure(
    "modelyard_engine_requests_running",
    "Requests in progress.",
    "short",
    lambda measured: measured.requests_running,
)
WAITING: Final = Figure(
    "modelyard_engine_requests_waiting",
    "Requests that wait for their turn.",
    "short",
    lambda measured: measured.requests_waiting,
)
KV_CACHE: Final = Figure(
    "modelyard_engine_kv_cache_usage_ratio",
    "Part of the KV cache that is in use, 0 to 1; of several pods, the average.",
    "percentunit",
    lambda measured: measured.kv_cache_usage,
)
FIGURES: Final = (TOKENS, FIRST_TOKEN, RUNNING, WAITING, KV_CACHE)
"""Every figure. Each has the labels `namespace`, `kind` and `name` of the object that is served."""


def sample_names(measures: Measures) -> tuple[str, ...]:
    """Return the names of the samples that the figures are worked out from; empty: the engine tells nothing."""
    histogram = (f"{measures.delay}_sum", f"{measures.delay}_count") if measures.delay else ()
    named = (measures.tokens, measures.running, measures.waiting, *measures.kv_cache, *histogram)
    return tuple(filter(None, named))


def measured(measures: Measures, now: Reading, before: Reading | None) -> Measured:
    """Return the figures of one server from its latest reading; without the one before, those that need no two."""
    return Measured(
        tokens_per_second=_rate(measures.tokens, now, before),
        requests_running=_total(now, measures.running),
        requests_waiting=_total(now, measures.waiting),
        kv_cache_usage=_mean(value for name in measures.kv_cache for value in _values(now, name)),
        first_tokens=_increase(f"{measures.delay}_count", now, before) or 0.0,
        first_token_seconds=_increase(f"{measures.delay}_sum", now, before) or 0.0,
    )


def together(servers: Iterable[Measured]) -> Measured:
    """Return the figures of several servers of one object: sums, but for the KV cache, which is an average."""
    found = tuple(servers)
    return Measured(
        tokens_per_second=_sum(one.tokens_per_second for one in found),
        requests_running=_sum(one.requests_running for one in found),
        requests_waiting=_sum(one.requests_waiting for one in found),
        kv_cache_usage=_mean(one.kv_cache_usage for one in found),
        first_tokens=sum(one.first_tokens for one in found),
        first_token_seconds=sum(one.first_token_seconds for one in found),
    )


def _values(reading: Reading, name: str) -> list[float]:
    return [value for value in reading.samples.get(name, ()) if isfinite(value)]


def _total(reading: Reading, name: str) -> float | None:
    return _sum(_values(reading, name))


def _increase(name: str, now: Reading, before: Reading | None) -> float | None:
    """Return by how much a counter has grown; None: it is not known. A smaller one has begun anew, at zero."""
    last, first = _total(now, name), _total(before, name) if before else None
    if last is None or first is None:
        return None
    return last - first if last >= first else last


def _rate(name: str, now: Reading, before: Reading | None) -> float | None:
    grown = _increase(name, now, before)
    if grown is None or before is None or now.at <= before.at:
        return None
    return grown / (now.at - before.at)


def _sum(values: Iterable[float | None]) -> float | None:
    told = _told(values)
    return sum(told) if told else None


def _mean(values: Iterable[float | None]) -> float | None:
    told = _told(values)
    return sum(told) / len(told) if told else None


def _told(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
