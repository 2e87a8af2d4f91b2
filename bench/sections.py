"""What is measured, and which goals it is held against."""

from __future__ import annotations

import sys
from statistics import median
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from bench import life
from bench.cluster import fresh_cluster
from bench.contenders import floor, operator
from bench.converge import Run, converge, has_status, is_ready
from bench.objects import Load, Mix
from bench.report import Row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MEMORY_OBJECTS: Final = 1000


class Options(Struct, frozen=True):
    """How big, how often and how long."""

    name: str
    mix: Mix
    objects: int
    pairs: int = 3
    rest: float = 60.0

    @property
    def load(self) -> Load:
        """The objects to create."""
        return self.mix.load(self.objects)


async def ready(options: Options) -> list[Row]:
    """All objects Ready, on a cluster with scheduler, controllers and a simulated node."""
    pairs = [await _pair(options, nodes=True) for _ in range(options.pairs)]
    rows = _ratios("all Ready", pairs, goal=1.25)
    runs = [mine for mine, _ in pairs]
    per_object = max(run.writes_per_object for run in runs)
    floor_writes = max(bare.writes_per_object for _, bare in pairs)
    return [
        *rows,
        Row(
            "writes per object, create to Ready",
            per_object,
            floor=floor_writes,
            goal=options.load.writes,
        ),
        *(Row(f"  {name}", number / options.load.total) for name, number in runs[-1].writes.items()),
        _middle("CPU, create to Ready", pairs, "cpu_seconds", "s"),
        _middle("RSS when all are Ready", pairs, "memory_mb", "MB"),
    ]


async def children(options: Options) -> list[Row]:
    """Children and first status written, on a cluster without scheduler, controllers and nodes."""
    pairs = [await _pair(options, nodes=False) for _ in range(options.pairs)]
    writes = max(mine.writes_per_object for mine, _ in pairs)
    floor_writes = max(bare.writes_per_object for _, bare in pairs)
    return [
        *_ratios("children and first status", pairs, goal=1.4),
        Row("writes per object, without nodes", writes, floor=floor_writes, goal=floor_writes),
    ]


async def lifetime(options: Options) -> list[Row]:
    """Rest, edits and a restart, one after the other on one cluster."""
    load = options.load
    async with fresh_cluster(nodes=True) as cluster, operator(cluster) as contender:
        await converge(cluster, contender, load, is_ready)
        before = await contender.questions()
        quiet = await life.rest(cluster, contender, options.rest)
        asked = await contender.questions() - before
        _say(f"rest: {quiet}, {asked} requests of checks")
        edited = await life.edits(cluster, load, in_peace=True)
        _say(f"edits: {edited}")
        hurried = await life.edits(cluster, load, in_peace=False)
        _say(f"edits, one upon the other: {hurried}")
        await life.all_ready(cluster, contender, load)
        again = await life.restart(cluster, contender, load.total)
        _say(f"restart: {again}")
    return [
        Row(f"writes in {options.rest:.0f} s at rest", sum(quiet.writes.values()), goal=0.0),
        Row("requests of checks meanwhile, per object", asked / load.total),
        Row("CPU at rest, questions going on", quiet.cpu_percent, unit="%"),
        Row("edit to Deployment, p50", edited.p50 * 1000, unit="ms", goal=50.0),
        Row("edit to Deployment, p95", edited.p95 * 1000, unit="ms", goal=250.0),
        Row("edit to Deployment, worst", edited.worst * 1000, unit="ms"),
        Row("the same while pods are replaced, p50", hurried.p50 * 1000, unit="ms"),
        Row("the same while pods are replaced, p95", hurried.p95 * 1000, unit="ms"),
        Row("restart: writes", sum(again.writes.values()), goal=0.0),
        Row("restart: process start to sync", again.synced, unit="s"),
        Row("restart: sync to steady", again.steady, unit="s", goal=5.0),
    ]


async def memory(options: Options) -> list[Row]:
    """Memory with many objects, whatever the number for the other sections is."""
    async with fresh_cluster(nodes=True) as cluster, operator(cluster) as contender:
        run = await converge(cluster, contender, options.mix.load(MEMORY_OBJECTS), is_ready)
    _say(f"memory: {run}")
    return [
        Row(f"RSS with {MEMORY_OBJECTS} objects", run.memory_mb, unit="MB", goal=150.0),
        Row(f"highest RSS until {MEMORY_OBJECTS} were Ready", run.peak_mb, unit="MB"),
    ]


SECTIONS: Final[dict[str, Callable[[Options], Awaitable[list[Row]]]]] = {
    "ready": ready,
    "children": children,
    "life": lifetime,
    "memory": memory,
}


async def _pair(options: Options, *, nodes: bool) -> tuple[Run, Run]:
    done, load = is_ready if nodes else has_status, options.load
    async with fresh_cluster(nodes=nodes) as cluster, floor(cluster, options.name) as bare:
        least = await converge(cluster, bare, load, done)
    _say(f"floor: {least}")
    async with fresh_cluster(nodes=nodes) as cluster, operator(cluster) as contender:
        mine = await converge(cluster, contender, load, done)
    _say(f"operator: {mine}")
    return mine, least


def _ratios(what: str, pairs: list[tuple[Run, Run]], goal: float) -> list[Row]:
    ratios = [mine.seconds / bare.seconds for mine, bare in pairs]
    rows = [
        Row(f"{what}, pair {number}", mine.seconds, "s", bare.seconds, ratio)
        for number, ((mine, bare), ratio) in enumerate(zip(pairs, ratios, strict=True), start=1)
    ]
    middle = _middle(f"{what}, median", pairs, "seconds", "s")
    return [*rows, replace(middle, ratio=median(ratios), goal=goal)]


def _middle(what: str, pairs: list[tuple[Run, Run]], field: str, unit: str) -> Row:
    mine, bare = (median(getattr(run, field) for run in runs) for runs in zip(*pairs, strict=True))
    return Row(what, mine, unit, bare)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
