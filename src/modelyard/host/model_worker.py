"""The life of one model on a host: download, memory, engine, requests; again after a crash, until it is unloaded.

`models` runs one per model, as the kubelet runs a worker per pod.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import aiohttp
import structlog
from msgspec import Struct

from modelyard.core.source import cache_key, redacted
from modelyard.core.times import timestamp
from modelyard.host.engine_process import health, is_ready, last_words, running_engine
from modelyard.host.engines import Custom, Serving, command, engine_for, ignored_options
from modelyard.host.fetch_process import Download, fetch_weights
from modelyard.host.liveness import EVERY_SECONDS, Liveness
from modelyard.host.load_request import memory_asked, source_of
from modelyard.host.memory import Capacity, MemoryLedger, need_of
from modelyard.host.refusals import LoadFailed
from modelyard.host.wire import Code, EngineName, Entry, LoadRequest, Problem, State
from modelyard.local.files import private_folder
from modelyard.local.node.process.process import Launch
from modelyard.local.node.process.reaper import CONTAINER_MARK, MARK
from modelyard.local.node.storage.pod_folders import ContainerFolder, engines_folder
from modelyard.local.ports import free_ports
from modelyard.local.program import LIFELINE
from modelyard.local.retry import Backoff, pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from modelyard.host.fetch_process import Weights
    from modelyard.host.wire import Progress

_FIRST: Final = 1.0
_LONGEST: Final = 60.0
_CALM: Final = 60.0
"""An engine that was ready for as long has recovered from earlier failures."""
_QUIET_FAILURES: Final = 2
"""So many ends of an engine in a row still count as loading."""
_MOST_OF_GPU: Final = 0.95

_log = structlog.get_logger()


class Machine(Struct, frozen=True):
    """What all models of a host share."""

    state: Path
    session: aiohttp.ClientSession
    ledger: MemoryLedger
    capacity: Capacity
    customs: dict[EngineName, Custom] = {}
    roots: tuple[Path, ...] = ()
    ports: set[int] = set()
    """The ports of engines that run or are about to. One that still loads may not listen yet, and the next one that
    started at its port would be asked for both models."""


class ModelWorker:
    """One model: what was asked for, how far it is, and its engine. It calls `keep` when it has learned its need."""

    def __init__(self, request: LoadRequest, machine: Machine, keep: Callable[[], None], need: int = 0) -> None:
        self.request = request
        self.state = State.DOWNLOADING
        self.problem: Problem | None = None
        self.port = 0
        """Where the engine listens; 0: it serves nothing."""
        self.need = need or memory_asked(request)
        """The bytes that it needs; 0: not known before the download."""
        self.loaded_at = ""
        """Since when it is ready; empty: it is not."""
        self.restarts = 0
        self.in_flight = 0
        self.liveness = Liveness()
        self._machine, self._keep = machine, keep
        self._engine = engine_for(request, has_gpu=bool(machine.capacity.gpu_total))
        self._folder = ContainerFolder(engines_folder(machine.state) / cache_key(request.model))
        self._weights: Weights | None = None
        self._progress: Progress | None = None
        self._ready_since: float | None = None
        self._failures = 0
        self._backoff = Backoff(_FIRST, _LONGEST)
        self._again = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def id(self) -> str:
        """The id of the model."""
        return self.request.model

    @property
    def is_evicted(self) -> bool:
        """Whether it waits for the end of memory pressure."""
        return self.state is State.FAILED and self.problem is not None and self.problem.code is Code.EVICTED

    def entry(self) -> Entry:
        """Return the model as clients see it."""
        request = self.request
        return Entry(
            id=self.id,
            state=self.state,
            memory_bytes=self.need,
            engine=self._engine.name,
            priority=request.priority,
            eviction_protection=request.eviction_protection,
            restarts=self.restarts,
            in_flight=self.in_flight,
            progress=self._progress if self.state is State.DOWNLOADING else None,
            error=self.problem,
            loaded_at=self.loaded_at,
            owner=request.owner,
            revision=request.revision,
            ignored_options=ignored_options(self._engine, request.options),
        )

    def try_again(self) -> None:
        """Begin anew after failures, at once, because a client asks for the model."""
        self.state, self.problem = State.DOWNLOADING, None
        self._failures = 0
        self._backoff.reset()
        self._again.set()

    def close(self) -> None:
        """Take no more requests, and say that it is unloaded; requests in flight go on."""
        self._withdraw(State.UNLOADING)

    def evict(self) -> None:
        """Take no more requests, and say that it gives way until the machine has memory again."""
        self.problem = Problem(Code.EVICTED, "the machine was short of memory; it returns by itself when that is over")
        self._withdraw(State.FAILED)

    async def until_idle(self, seconds: float) -> None:
        """Wait until no request is in flight, for some seconds at most."""
        await pause(seconds, self._idle)

    @contextmanager
    def serving_one(self) -> Iterator[None]:
        """Count a request while the block lasts."""
        self.in_flight += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._idle.set()
                self.liveness.rests()

    async def run(self) -> NoReturn:
        """Load the model and keep it ready until cancelled, which ends its engine."""
        while True:
            self._again.clear()
            failure = await self._serve()
            self._note(failure)
            await pause(None if failure.is_final else self._backoff.delay(), self._again)

    async def _serve(self) -> LoadFailed:
        """Load the model and serve it; return why that has ended."""
        try:
            weights = await self._fetched()
            self._reserve(weights.size)
            self._show(State.LOADING)
            return await self._run_engine(weights)
        except LoadFailed as failure:
            return failure
        except Exception as error:
            _log.exception("a model failed for a reason that is a bug, or a full disk", model=redacted(self.id))
            return LoadFailed(Code.INTERNAL, f"{type(error).__name__}: {error}; the log of the daemon says more")

    async def _fetched(self) -> Weights:
        if self._weights is None:
            self._show(State.DOWNLOADING)
            self._folder.make()
            self._weights = await fetch_weights(self._download(), self._env(), self._folder.log, self._tell)
        return self._weights

    def _download(self) -> Download:
        source = source_of(self.request)
        folder = private_folder(self._machine.state / "weights") / cache_key(source)
        return Download(source, folder, self.request.options.file, self._engine.takes_folder, self._machine.roots)

    def _tell(self, progress: Progress) -> None:
        self._progress = progress

    def _reserve(self, size: int) -> None:
        need = memory_asked(self.request) or need_of(size)
        is_news, self.need = need != self.need, need
        self._machine.ledger.reserve(self.id, need)
        if is_news:
            self._keep()

    async def _run_engine(self, weights: Weights) -> LoadFailed:
        # Drawn anew for every start: an engine that finds its port taken ends, and the next one has another.
        (port,) = free_ports(1, but=self._machine.ports)
        self._machine.ports.add(port)
        try:
            launch = self._launch(weights, port)
            async with running_engine(self._folder, launch) as ended:
                if await is_ready(self._machine.session, port, self._first_request(), ended):
                    self._publish(port)
                    await self._until_over(port, ended)
                is_hung = not ended.done()
        finally:
            self.port, self.loaded_at = 0, ""
            self._machine.ports.discard(port)
        said = last_words(self._folder)
        why = f"its last line: {said}" if said else "it has written nothing, so start it by hand to see why"
        end = "no longer answers /health with 200" if is_hung else f"ended with code {ended.result()}"
        return LoadFailed(Code.ENGINE_FAILED, f"{self._engine.name} {end} and is started again; {why}")

    async def _until_over(self, port: int, ended: asyncio.Task[int]) -> None:
        """Return when the engine has ended, or is to be ended because it hangs; then it gets no more requests."""
        watching = asyncio.create_task(self._until_dead(port))
        try:
            await asyncio.wait({ended, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            await asyncio.wait({watching})
        self.port, self.loaded_at = 0, ""
        self._move(State.LOADING)

    async def _until_dead(self, port: int) -> None:
        is_dead = False
        while not is_dead:
            await asyncio.sleep(EVERY_SECONDS)
            status = await health(self._machine.session, port)
            is_dead = self.liveness.is_dead(status, is_busy=self.in_flight > 0)

    def _launch(self, weights: Weights, port: int) -> Launch:
        gpus = self._machine.capacity.gpu_total
        serving = Serving(
            model=self.id,
            weights=weights.folder if self._engine.takes_folder else weights.folder / weights.file,
            port=port,
            options=self.request.options,
            gpu_share=min(self.need / gpus, _MOST_OF_GPU) if gpus else 0.0,
        )
        argv = command(self._engine, serving, self._machine.customs.get(self._engine.name, Custom()))
        if self._engine.takes_folder:
            self._link(weights.folder)
        mark = f"{CONTAINER_MARK}={self._folder.folder}"
        return Launch(argv, self._env(), str(self._folder.work), mark=mark)

    def _link(self, weights: Path) -> None:
        """Make the id of the model a path in the working directory of the engine, which leads to the weights."""
        link = self._folder.work / self.id
        link.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            link.unlink()
        link.symlink_to(weights)

    def _env(self) -> dict[str, str]:
        """Return our variables with those by which the reaper finds what we start."""
        # Without a lifeline that was given to us: its descriptor is not passed on.
        ours = {name: value for name, value in os.environ.items() if name != LIFELINE}
        return {**ours, MARK: str(self._machine.state), CONTAINER_MARK: str(self._folder.folder)}

    def _first_request(self) -> dict[str, object] | None:
        if not self._engine.warms_up:
            return None
        return {"model": self.id, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}

    def _publish(self, port: int) -> None:
        self.port, self.problem = port, None
        self._move(State.READY)
        self.loaded_at = timestamp(datetime.now(UTC))
        self._ready_since = time.monotonic()
        self.liveness = Liveness()
        _log.info("ready", model=redacted(self.id), engine=self._engine.name)

    def _note(self, failure: LoadFailed) -> None:
        self._count()
        self.problem = failure.problem
        is_restart = failure.problem.code is Code.ENGINE_FAILED and self._failures <= _QUIET_FAILURES
        self._move(State.LOADING if is_restart else State.FAILED)
        if failure.is_final:
            self._machine.ledger.release(self.id)
        _log.warning("a model failed", model=redacted(self.id), code=failure.problem.code, message=str(failure))

    def _count(self) -> None:
        """Count a failure, and an engine that was ready as a restart."""
        if self._ready_since is None:
            # What is on disk may be why; the next try looks at it again.
            self._weights = None
        elif time.monotonic() - self._ready_since > _CALM:
            self._failures = 0
            self._backoff.reset()
        self.restarts += self._ready_since is not None
        self._ready_since = None
        self._failures += 1

    def _show(self, state: State) -> None:
        """Say how far it is; one that has failed too often says so until it is ready."""
        if self._failures <= _QUIET_FAILURES:
            self._move(state)

    def _move(self, state: State) -> None:
        # One that is being unloaded must not become ready again when its engine crashes meanwhile.
        if self.state is not State.UNLOADING:
            self.state = state

    def _withdraw(self, state: State) -> None:
        self.state, self.port, self.loaded_at = state, 0, ""
