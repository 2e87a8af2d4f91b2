"""All models of a host: what clients ask for, kept on disk, and a worker for each. `routes` and `eviction` call it."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import structs

from modelyard.core.source import redacted
from modelyard.host.load_request import memory_asked
from modelyard.host.model_worker import ModelWorker
from modelyard.host.refusals import LoadFailed, Refusal, not_found
from modelyard.host.wanted import Wanted
from modelyard.host.wire import PRIORITIES, Code, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.host.model_worker import Machine
    from modelyard.host.wanted import WantedFile
    from modelyard.host.wire import LoadRequest

_SOON: Final = 2

_log = structlog.get_logger()


class Models:
    """The models of a host by id."""

    def __init__(self, machine: Machine, file: WantedFile, drain_seconds: float) -> None:
        self._machine, self._file, self._drain_seconds = machine, file, drain_seconds
        self._workers: dict[str, ModelWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unloading: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[ModelWorker]:
        """Yield all models, by id."""
        return iter(sorted(self._workers.values(), key=lambda worker: worker.id))

    def find(self, model: str) -> ModelWorker:
        """Return a model; `Refusal` when it is not on this host."""
        worker = self._workers.get(model)
        if worker is None:
            raise not_found(model)
        return worker

    def called(self, name: str) -> ModelWorker:
        """Return the model that clients call so, by its id or by an alias; `Refusal` when that is none, or several."""
        if name in self._workers:
            return self._workers[name]
        known = [worker for worker in self if name in worker.request.aliases]
        if len(known) > 1:
            # One of them at random would be the model of another namespace, half of the time.
            ids = " or ".join(worker.id for worker in known)
            raise Refusal(HTTPStatus.NOT_FOUND, Code.MODEL_NOT_FOUND, f"several models are called {name}; name {ids}")
        if not known:
            message = f"{name} is not on this host; GET /v1/models lists what is"
            raise Refusal(HTTPStatus.NOT_FOUND, Code.MODEL_NOT_FOUND, message)
        return known[0]

    def restore(self) -> None:
        """Load again what was asked for before the last end of the daemon."""
        for wanted in self._file.read():
            worker = ModelWorker(wanted.request, self._machine, self._keep, wanted.need)
            self._workers[worker.id] = worker
            # Now, and not when its turn comes: a request that arrives meanwhile must not take its memory.
            if self._machine.ledger.fits(worker.id, worker.need):
                self._machine.ledger.reserve(worker.id, worker.need)
            self._start(worker)

    def load(self, request: LoadRequest) -> ModelWorker:
        """Ask for a model, which is loaded in the background; `Refusal` when that is not possible now."""
        worker = self._workers.get(request.model)
        return self._begin(request) if worker is None else self._repeat(worker, request)

    def unload(self, model: str) -> ModelWorker:
        """Take a model from clients, and end its engine once its requests are done; `Refusal` when it is not here."""
        worker = self.find(model)
        if worker.state is not State.UNLOADING:
            # On disk first: a model that is unloaded must not return after a crash.
            self._write(other for other in self._wanted() if other is not worker)
            worker.close()
            task = asyncio.create_task(self._finish(worker))
            self._unloading.add(task)
            task.add_done_callback(self._unloading.discard)
        return worker

    async def evict(self, worker: ModelWorker) -> None:
        """End the engine of a model, which stays asked for."""
        worker.evict()
        await self._stop(worker)
        self._machine.ledger.release(worker.id)

    def return_evicted(self) -> ModelWorker | None:
        """Load the most important evicted model that fits again; None: there is none."""
        evicted = [worker for worker in self if worker.is_evicted]
        for worker in sorted(evicted, key=lambda each: -PRIORITIES.index(each.request.priority)):
            if self._machine.ledger.fits(worker.id, worker.need):
                self._machine.ledger.reserve(worker.id, worker.need)
                worker.try_again()
                self._start(worker)
                return worker
        return None

    async def stop(self) -> None:
        """End all engines. What was asked for stays on disk."""
        tasks = [*self._tasks.values(), *self._unloading]
        for task in tasks:
            _cancel_once(task)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, request: LoadRequest) -> ModelWorker:
        worker = ModelWorker(request, self._machine, self._keep)
        if worker.need:
            self._reserve(worker.id, worker.need)
        try:
            # On disk first: what is accepted must outlive a crash.
            self._write((*self._wanted(), worker))
        except Refusal:
            self._machine.ledger.release(worker.id)
            raise
        self._workers[worker.id] = worker
        self._start(worker)
        _log.info("asked to load", model=redacted(worker.id), owner=request.owner)
        return worker

    def _repeat(self, worker: ModelWorker, request: LoadRequest) -> ModelWorker:
        if worker.state is State.UNLOADING:
            raise Refusal(HTTPStatus.CONFLICT, Code.BUSY, f"{worker.id} is being unloaded; ask again", _SOON)
        if (request.revision, request.options) != (worker.request.revision, worker.request.options):
            message = f"{worker.id} is loaded with another revision or other options; unload it first"
            raise Refusal(HTTPStatus.CONFLICT, Code.DIFFERENT, message)
        need = memory_asked(request) or worker.need
        is_failed = worker.state is State.FAILED and not worker.is_evicted
        if need and not worker.is_evicted:
            self._reserve(worker.id, need)
        # Several clients may share a model, and each knows only its own names for it.
        aliases = tuple(dict.fromkeys((*worker.request.aliases, *request.aliases)))
        request = structs.replace(request, aliases=aliases)
        if request != worker.request:
            worker.request, worker.need = request, need
            self._keep()
        if is_failed:
            worker.try_again()
        return worker

    def _reserve(self, model: str, need: int) -> None:
        try:
            self._machine.ledger.reserve(model, need)
        except LoadFailed as failure:
            status, problem = HTTPStatus.INSUFFICIENT_STORAGE, failure.problem
            raise Refusal(status, problem.code, problem.message) from failure

    def _wanted(self) -> list[ModelWorker]:
        return [worker for worker in self._workers.values() if worker.state is not State.UNLOADING]

    def _keep(self) -> None:
        self._write(self._wanted())

    def _write(self, workers: Iterable[ModelWorker]) -> None:
        try:
            self._file.write(Wanted(worker.request, worker.need) for worker in workers)
        except OSError as error:
            message = f"the list of models cannot be written ({error}); make room on the disk of this host"
            raise Refusal(HTTPStatus.INSUFFICIENT_STORAGE, Code.NO_SPACE, message) from error

    def _start(self, worker: ModelWorker) -> None:
        self._tasks[worker.id] = asyncio.create_task(worker.run())

    async def _stop(self, worker: ModelWorker) -> None:
        """End the engine of a model, and wait for it: an unload waits for the end that an eviction has begun."""
        task = self._tasks.get(worker.id)
        if task is not None:
            _cancel_once(task)
            await asyncio.wait({task})
            self._tasks.pop(worker.id, None)

    async def _finish(self, worker: ModelWorker) -> None:
        await worker.until_idle(self._drain_seconds)
        await self._stop(worker)
        self._machine.ledger.release(worker.id)
        del self._workers[worker.id]
        _log.info("unloaded", model=redacted(worker.id))


def _cancel_once(task: asyncio.Task[None]) -> None:
    # A second time would cut off the end of its engine, which it waits for.
    if not task.cancelling():
        task.cancel()
