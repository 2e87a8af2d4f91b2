"""What the figures of a router say about its tracks: requests, errors, and how long answers took.

Pure: it reads what a router answers at `/.modelyard/stats`. Figures count from the start of one Envoy. To judge a span
of time takes two readings of the same pod, and what came between them. The time of an answer is that of the whole
answer, from the first byte of the request to the last token.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from msgspec import Struct

QUERY: Final = "usedonly&filter=^cluster%5C..*%5C.upstream_(rq|cx_destroy_remote)"
"""The query that leaves out what is not read here."""

_LINE: Final = re.compile(r"envoy_cluster_upstream_(?P<name>\w+)\{(?P<labels>[^}]*)\} (?P<value>\d+)")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_UNAVAILABLE: Final = "503"


class Figures(Struct, frozen=True):
    """The requests of one track, as one Envoy counted them."""

    requests: int = 0
    errors: int = 0
    """Answers with 5xx, and answers that broke off."""
    within: dict[float, int] = {}
    """How many answers took at most so many milliseconds."""
    active: int = 0
    """How many requests are in flight now."""

    def since(self, earlier: Figures) -> Figures:
        """Return what came after an earlier reading. All of it, if Envoy has started anew meanwhile."""
        if earlier.requests > self.requests:
            return self
        return Figures(
            self.requests - earlier.requests,
            max(0, self.errors - earlier.errors),
            {limit: count - earlier.within.get(limit, 0) for limit, count in self.within.items()},
            self.active,
        )

    def __add__(self, other: Figures) -> Figures:
        """Return the figures of two Envoys together."""
        limits = sorted({*self.within, *other.within})
        within = {limit: self.within.get(limit, 0) + other.within.get(limit, 0) for limit in limits}
        return Figures(self.requests + other.requests, self.errors + other.errors, within, self.active + other.active)

    def quantile(self, share: float) -> float | None:
        """Return within how many seconds this share of the answers was complete; None: there was no answer.

        It is as coarse as Envoy's buckets. Within a bucket answers are taken to be spread evenly, as Prometheus does.
        """
        wanted = share * max(self.within.values(), default=0)
        low, below = 0.0, 0
        for limit, count in sorted(self.within.items()):
            if count >= wanted > 0:
                width = 0.0 if limit == float("inf") else limit - low
                return (low + width * (wanted - below) / (count - below)) / 1000
            low, below = limit, count
        return None


def figures_of(text: str) -> dict[str, Figures]:
    """Read the figures of every track from what a router told."""
    counted: defaultdict[str, defaultdict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for line in _LINE.finditer(text):
        labels = dict(_LABEL.findall(line["labels"]))
        track = labels.pop("envoy_cluster_name", "")
        counted[track][line["name"], "".join(labels.values())] = int(line["value"])
    return {track: _figures(counts) for track, counts in counted.items()}


def _figures(counts: defaultdict[tuple[str, str], int]) -> Figures:
    # A connection that broke before the first byte of an answer is a 503 too, and must not count twice. Which of the
    # 503 those are is not told, but that they are none of those that found no server to connect to.
    answered = counts["rq", _UNAVAILABLE] - counts["rq_retry_limit_exceeded", ""]
    broken = counts["cx_destroy_remote_with_active_rq", ""]
    return Figures(
        requests=counts["rq_completed", ""],
        errors=counts["rq_xx", "5"] + broken - min(answered, broken),
        within={float(limit): count for (name, limit), count in counts.items() if name == "rq_time_bucket"},
        active=counts["rq_active", ""],
    )
