"""Run one container of a pod: start it, probe it, restart it with back-off, stop it.

`pod_worker` makes one `ContainerWorker` per container. Its counterpart is the kubelet's `syncPod` for one container.
`status.state` is the state that the status of the pod shows:

    state                     entered when                        next
    ------------------------  ----------------------------------  ---------------------------------------------
    Waiting, with the reason  the worker is made; the reason is   Running; if the process cannot be started
    ContainerCreating or      that of the last failed try to      (exit code 128), as after a run that has ended
    that of an error          prepare it
    Running                   the process has started, and its    Terminated, if `stop` was called or the restart
                              record is on disk                   policy wants no further run; else
                                                                  CrashLoopBackOff
    Waiting, with the reason  a run has ended, and another is     Running, after 1, 2, 4 ... 60 s and with one
    CrashLoopBackOff          due                                 more restart; a run of 2 minutes resets this
    Terminated                the last run has ended              -

A record is on disk before the state that follows from it is shown, so that no node forgets what another client has
seen. The next node begins with:

    record            state
    ----------------  -----------------------------------------------------------------------------------------
    none              Waiting
    `pid`             Waiting, with the lost run as last state and no restart counted; Terminated, if the restart
                      policy is Never. The reaper has killed the process itself.
    `last`, no `pid`  Waiting; the restart is counted already
    `ended`           Terminated
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.kube.errors import KubeError
from modelyard.local.clock import timestamp
from modelyard.local.files import tail
from modelyard.local.node.pods import probes
from modelyard.local.node.pods.config_sources import ConfigMissing
from modelyard.local.node.pods.pod_events import PodWarning
from modelyard.local.node.process.container_record import ContainerRecord, read_record, write_record
from modelyard.local.node.process.container_state import MESSAGE_BYTES, ContainerStatus, Running, Terminated, Waiting
from modelyard.local.node.process.images import NoProgram
from modelyard.local.node.process.process import Process
from modelyard.local.retry import Backoff, pause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.local.node.pods.launch import Prepared
    from modelyard.local.node.podspec import Container, Probe
    from modelyard.local.node.proxy.addresses import HostPort
    from modelyard.local.node.storage.pod_folders import ContainerFolder

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_FORGIVEN_AFTER: Final = 120.0
_LONGEST_RETRY: Final = 10.0
_LEAST_GRACE: Final = 2.0
# Kubernetes has no field for the time that a postStart hook may take.
_LONGEST_HOOK: Final = 3600.0
_TAIL_LINES: Final = 80
_TAIL_BYTES: Final = 2048

_LISTEN_HERE: Final = (
    "let it listen on the address of its pod (the field status.podIP), or name its hostFlag or hostEnv in the file "
    "that --images names"
)
BACK_OFF: Final = Waiting("CrashLoopBackOff", "the container has ended and is started again after a pause")

Prepare = Callable[[], Awaitable["Prepared"]]


class ContainerCallbacks(Struct, frozen=True):
    """What a container calls on its pod."""

    changed: Callable[[], None]
    """The status is another one now."""
    warning: Callable[[PodWarning], None]
    """A probe or hook failed, and the pod should show an Event."""


class ContainerWorker:
    """The worker of one container. Made inside an event loop; `run` is called once."""

    def __init__(
        self,
        container: Container,
        policy: str,
        prepare: Prepare,
        folder: ContainerFolder,
        grace: float,
        callbacks: ContainerCallbacks,
    ) -> None:
        self.container = container
        self._policy, self._prepare, self._folder = policy, prepare, folder
        self._grace = self._stop_grace = grace
        self._callbacks = callbacks
        self._stopped, self._end_run, self._started = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._failure = ""
        self._process: Process | None = None
        self._access: probes.ContainerAccess | None = None
        self._restart_backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self.status = self._status_from(read_record(folder.record))

    @property
    def is_running(self) -> bool:
        """Whether the process of the container runs now."""
        return self._process is not None

    @property
    def access(self) -> probes.ContainerAccess | None:
        """How probes and `exec` reach the container; None: it does not run."""
        return self._access

    @property
    def succeeded(self) -> bool:
        """Whether the container has ended for good with exit code 0."""
        return isinstance(self.status.state, Terminated) and self.status.state.succeeded

    def set_waiting(self, waiting: Waiting) -> None:
        """Show why the container is not started yet. One that has been started is left as it is."""
        if isinstance(self.status.state, Waiting):
            self._set_status(state=waiting)

    async def wait_started(self) -> None:
        """Wait until the container has passed its startup probe, or has ended for good without."""
        await self._started.wait()

    async def run(self) -> None:
        """Run the container and return when it has ended for good, or was told to stop."""
        self._folder.make()
        try:
            while not self._stopped.is_set() and not isinstance(self.status.state, Terminated):
                await self._run_once()
        finally:
            # A pod waits for the start of each sidecar: one that never starts must not hold up the pod's end.
            self._started.set()

    def stop(self, grace: float) -> None:
        """Tell the container to end within `grace` seconds, and not to start again."""
        self._stop_grace = grace
        self._stopped.set()
        self._end_run.set()

    def kill(self) -> None:
        """Kill the container, and do not start it again."""
        self.stop(0)
        if self._process is not None:
            self._process.kill()

    def on_listening(self, places: Iterable[HostPort]) -> None:
        """Take that the container listens beyond loopback: at a port of its own that ends this run, else it is told."""
        access = self._access
        if access is None:
            return
        own = {access.only_port, *(port.container_port for port in access.ports)}
        for place in places:
            why = f"listens on {place}, where other machines reach it and no pod can have the port; {_LISTEN_HERE}"
            # Engines open other ports for themselves, on every address and without a choice: torch does.
            (self._fail_run if place.port in own else self._warn)(why)

    async def _run_once(self) -> None:
        prepared = await self._wait_prepared()
        if prepared is None:
            return
        ended = await self._run_process(prepared)
        if self._stopped.is_set():
            # The record still holds the process: if the node has stopped, the next one starts the container again.
            self._set_status(state=ended, ready=False, started=False)
        elif self._is_final(ended):
            write_record(
                self._folder.record, ContainerRecord(restarts=self.status.restarts, ended=ended, last=self.status.last)
            )
            self._set_status(state=ended, ready=False, started=False)
        else:
            await self._back_off(ended)

    async def _wait_prepared(self) -> Prepared | None:
        """Return what is needed to start the container, once all of it is there; None: it was told to stop before."""
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_RETRY)
        while not self._stopped.is_set():
            try:
                return await self._prepare()
            except (ModelyardError, OSError) as error:
                self._set_status(state=waiting_for(error))
            await pause(backoff.delay(), until=self._stopped)
        return None

    async def _run_process(self, prepared: Prepared) -> Terminated:
        self._failure, began, started = "", time.monotonic(), timestamp()
        try:
            process = await self._start_process(prepared, started)
        except (OSError, ValueError) as error:
            program = prepared.launch.argv[0]
            return Terminated(128, "StartError", started, timestamp(), f"{program} cannot be started: {error}")
        self._set_status(state=Running(started), unready_because="")
        code = await self._wait_process(process, prepared)
        if time.monotonic() - began > _FORGIVEN_AFTER:
            self._restart_backoff.reset()
        return self._terminated(process, code, started)

    async def _start_process(self, prepared: Prepared, started: str) -> Process:
        """Start the process and write its record; OSError when one of the two fails."""
        self._rotate_log()
        process = await Process.start(prepared.launch, self._folder.log)
        try:
            self._write_record(process, started, prepared)
        except OSError:
            # The disk is full. The next node would start a second process beside one that it does not know of.
            process.kill()
            await process.wait()
            raise
        return process

    async def _wait_process(self, process: Process, prepared: Prepared) -> int:
        """Return the exit code of a process, which is probed and watched for its memory until it ends."""
        self._process, self._access = process, prepared.access
        # A `stop` that came while the process was being started must still end it.
        if not self._stopped.is_set():
            self._end_run.clear()
            self._stop_grace = self._grace
        try:
            async with asyncio.TaskGroup() as group:
                watching = [
                    group.create_task(self._post_start_and_probe(prepared.access)),
                    group.create_task(process.watch_memory()),
                    group.create_task(self._stop_when_told(process, prepared)),
                ]
                code = await process.wait()
                for task in watching:
                    task.cancel()
        finally:
            # Also when we are cancelled: without a worker, no one would end the process or what it has started.
            self._process = self._access = None
            process.kill()
        return code

    async def _post_start_and_probe(self, access: probes.ContainerAccess) -> None:
        hook = self.container.lifecycle.post_start
        if hook is not None:
            try:
                await probes.run_handler(hook, access, _LONGEST_HOOK)
            except probes.ProbeFailed as failure:
                return self._fail_run(f"the postStart hook failed: {failure}")
        callbacks = probes.ProbeCallbacks(self._on_started, self._on_ready, self._on_unready, self._on_unhealthy)
        return await probes.run_probes(self.container, access, callbacks)

    async def _stop_when_told(self, process: Process, prepared: Prepared) -> None:
        await self._end_run.wait()
        began, hook = time.monotonic(), self.container.lifecycle.pre_stop
        # A sleep is meant for proxies that are late. Ours knows of the end, and the pod has waited for the answers.
        if hook is not None and hook.sleep is None and self._stop_grace > 0:
            with suppress(probes.ProbeFailed):
                await probes.run_handler(hook, prepared.access, self._stop_grace)
        used = time.monotonic() - began
        await process.end(max(self._stop_grace - used, _LEAST_GRACE if hook else 0))

    def _on_started(self) -> None:
        self._set_status(started=True)
        self._started.set()

    def _on_ready(self, ready: bool) -> None:
        self._set_status(ready=ready, unready_because="")

    def _on_unready(self, why: str) -> None:
        self._warn(why)
        self._set_status(unready_because=why)

    def _on_unhealthy(self, why: str, probe: Probe) -> None:
        self._fail_run(why, probe.termination_grace_period_seconds)

    def _fail_run(self, why: str, grace: float | None = None) -> None:
        """End this run of the container because a probe or hook failed; the next run may do better."""
        # A run that is ending already has its reason and its grace period.
        if self._end_run.is_set():
            return
        self._failure = why
        self._warn(why)
        if grace is not None:
            self._stop_grace = grace
        self._end_run.set()

    def _warn(self, why: str) -> None:
        self._callbacks.warning(PodWarning("Unhealthy", f"container {self.container.name}: {why}"))

    async def _back_off(self, ended: Terminated) -> None:
        # The record counts the restart at once, the status when it happens: a node that is killed during the pause
        # would otherwise start the container without counting.
        write_record(self._folder.record, ContainerRecord(restarts=self.status.restarts + 1, last=ended))
        self._set_status(state=BACK_OFF, last=ended, ready=False, started=False)
        await pause(self._restart_backoff.delay(), until=self._stopped)
        if not self._stopped.is_set():
            self.status = msgspec.structs.replace(self.status, restarts=self.status.restarts + 1)

    def _is_final(self, ended: Terminated) -> bool:
        return self._policy == "Never" or (self._policy == "OnFailure" and ended.succeeded)

    def _set_status(self, **changes: Any) -> None:
        status = msgspec.structs.replace(self.status, **changes)
        if status != self.status:
            self.status = status
            self._callbacks.changed()

    def _write_record(self, process: Process, started: str, prepared: Prepared) -> None:
        record = ContainerRecord(
            pid=process.pid,
            birth=process.birth,
            folder=str(self._folder.folder),
            started=started,
            restarts=self.status.restarts,
            last=self.status.last,
            remove=prepared.launch.remove,
        )
        write_record(self._folder.record, record)

    def _status_from(self, record: ContainerRecord) -> ContainerStatus:
        """Return the status that a container has when the node starts, by the second table above."""
        status = ContainerStatus(self.container.name, self.container.image, last=record.last, restarts=record.restarts)
        if record.ended is not None:
            return msgspec.structs.replace(status, state=record.ended)
        if not record.pid:
            return status
        lost = Terminated(137, "NodeStopped", record.started, timestamp(), "it ended together with the node")
        return msgspec.structs.replace(status, **{"state" if self._policy == "Never" else "last": lost})

    def _rotate_log(self) -> None:
        """Keep the log of the last run for `kubectl logs --previous`, and remove its termination message."""
        if self._folder.log.exists():
            self._folder.log.replace(self._folder.previous_log)
        self._folder.termination.unlink(missing_ok=True)
        self._folder.termination.touch(mode=0o600)

    def _terminated(self, process: Process, code: int, started: str) -> Terminated:
        reason = "OOMKilled" if process.out_of_memory else "Error" if code else "Completed"
        message = self._termination_message(code)
        return Terminated(code, reason, started, timestamp(), message)

    def _termination_message(self, code: int) -> str:
        """Return what the process wrote as termination message, else why it was ended, else the end of its log."""
        with suppress(OSError):
            with self._folder.termination.open("rb") as stream:
                message = stream.read(MESSAGE_BYTES)
            if message:
                return message.decode(errors="replace")
            if code and not self._failure and self.container.termination_message_policy != "File":
                return tail(self._folder.log, _TAIL_LINES, _TAIL_BYTES)
        return self._failure


def waiting_for(error: Exception) -> Waiting:
    """Return the Waiting state, with a reason of the kubelet, for an error that keeps a container from starting."""
    if isinstance(error, NoProgram):
        return Waiting("ErrImageNeverPull", str(error))
    if isinstance(error, ConfigMissing):
        return Waiting("CreateContainerConfigError", str(error))
    if isinstance(error, KubeError):
        # Not the error itself: it changes from one try to the next, and each change would be one more status write.
        return Waiting("ContainerCreating", "the API server cannot be asked for what the container needs")
    return Waiting("ContainerCreating", str(error))
