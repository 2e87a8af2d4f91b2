"""Run one pod from its binding to this node until its object is gone: a pod worker of the kubelet.

`pod_workers` makes one `PodWorker` per pod and passes on what the watch tells. While containers run, a status that
another client overwrites is written again.

    state         what happens                                         next
    ------------  ---------------------------------------------------  ---------------------------------------------
    mounting      volumes are prepared, with back-off                  initializing
    initializing  init containers run in order; a sidecar counts when  running; stopping, if one has failed for good
                  it has started
    running       one `ContainerWorker` per container                  stopping, when all have ended for good
    draining      the proxy sends no new callers, and those that wait  stopping, after the last answer or 80% of the
                  get their answers                                    grace period
    stopping      nothing is started again; the containers end, then   ended
                  the sidecars
    ended         last status written, GPUs given back, logs kept      confirmed, once the object is being deleted
    confirmed     the object is deleted with grace period 0            gone
    gone          folder removed, address given back                   the worker returns

Every state before `ended` can be left by these events. Each is set once and never cleared.

    because of               _deleted  _gone  _stopped
    -----------------------  --------  -----  --------------------------------------------------
    a deletion timestamp     set              set after draining; at once if no container runs
    the object is gone       set       set    set; what is stopping already is killed
    the node stops           set       set    set; folder and records stay for the next node
    `activeDeadlineSeconds`                   set

A pod that had ended before the node started begins in `ended`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from modelyard.core import names
from modelyard.core.errors import ModelyardError
from modelyard.core.resources import EVENT, POD
from modelyard.kube.errors import Conflict, KubeError, NotFound
from modelyard.local.clock import timestamp
from modelyard.local.node.pods.container_worker import ContainerCallbacks, ContainerWorker, waiting_for
from modelyard.local.node.pods.downward_api import PodContext
from modelyard.local.node.pods.launch import Launcher
from modelyard.local.node.pods.pod_events import PodWarnings, event
from modelyard.local.node.pods.pod_status import OVER, PodFacts, changed, pod_status
from modelyard.local.node.pods.volumes import Volumes
from modelyard.local.node.podspec import pod_spec
from modelyard.local.node.process.container_state import CREATING, INITIALIZING
from modelyard.local.node.storage.pod_folders import PodFolder, PodName
from modelyard.local.retry import Backoff, pause

if TYPE_CHECKING:
    from modelyard.core.objects import Metadata, Stored
    from modelyard.local.node.pods.node_context import NodeContext
    from modelyard.local.node.pods.pod_events import PodWarning
    from modelyard.local.node.pods.probes import ContainerAccess
    from modelyard.local.node.podspec import Container
    from modelyard.local.node.process.container_state import Waiting
    from modelyard.local.node.proxy.addresses import HostPort, PodAddress

_log = structlog.get_logger()

# Changes within this time are one write: a start changes several containers at once.
_BATCH_SECONDS: Final = 0.02
_FIRST_RETRY: Final = 1.0
_LONGEST_RETRY: Final = 10.0
_LEAST_GRACE: Final = 1.0
# No API object tells how long a pod has whose object is gone already.
_VANISHED_GRACE: Final = 2.0
# The share of the grace period that callers have for their answers; containers need the rest to end.
_DRAIN_SHARE: Final = 0.8


class PodWorker:
    """The worker of one pod that is bound to this node. Made inside an event loop; `run` is called once."""

    def __init__(self, context: NodeContext, pod: Stored) -> None:
        self._context, self._pod = context, pod
        self._spec, self._uid, self._first_seen = pod_spec(pod), pod.meta.uid, timestamp()
        self._folder = PodFolder(context.state, self._uid)
        self._address = context.addresses.take(self._uid, self._spec.ports)
        pod_context = PodContext(pod.meta, self._spec, self._address.ip, context.capacity)
        self._volumes = Volumes(context.client, pod_context, self._folder)
        self._launcher = Launcher(context, pod_context, self._address, self._volumes)
        self._changed, self._stopped, self._deleted, self._gone = (asyncio.Event() for _ in range(4))
        self._warnings = PodWarnings()
        self._node_stops = self._overdue = False
        self._stop_by = float("inf")
        self._drain_task: asyncio.Task[None] | None = None
        once = "Never" if self._spec.restart_policy == "Never" else "OnFailure"
        self._inits = [
            self._worker_of(each, "Always" if each.is_sidecar else once) for each in self._spec.init_containers
        ]
        self._containers = [self._worker_of(each, self._spec.restart_policy) for each in self._spec.containers]
        self.update(pod)

    @property
    def pod(self) -> Stored:
        """The Pod object, in the newest version seen."""
        return self._pod

    @property
    def address(self) -> PodAddress:
        """Where the processes of the pod listen, and what the cluster is shown."""
        return self._address

    def is_running(self, container: str) -> bool:
        """Whether the process of a container of this pod runs now; False also for a name the pod does not have."""
        return any(worker.is_running for worker in self._all if worker.container.name == container)

    def access(self, container: str) -> ContainerAccess | None:
        """Return how probes and `exec` reach a container of this pod; None: it does not run."""
        return next((worker.access for worker in self._all if worker.container.name == container), None)

    def on_listening(self, container: str, places: list[HostPort]) -> None:
        """Take that a container of this pod listens beyond loopback."""
        for worker in self._all:
            if worker.container.name == container:
                worker.on_listening(places)

    def update(self, pod: Stored) -> None:
        """Take a version of the Pod object, from the watch or from the answer to a write."""
        # The watch may deliver a version from before our last write: taking it would report a change that is undone.
        if pod.meta.revision < self._pod.meta.revision:
            return
        self._pod = pod
        self._volumes.update(pod.meta)
        self._changed.set()
        if pod.meta.deleting and not self._deleted.is_set():
            self._deleted.set()
            if any(worker.is_running for worker in self._containers):
                self._drain_task = asyncio.create_task(self._drain_and_stop())
            else:
                self._stop(self._grace_left)

    @property
    def _grace_left(self) -> float:
        return grace_left(self._pod.meta, datetime.now(UTC))

    async def _drain_and_stop(self) -> None:
        """Wait until callers have their answers, then stop the containers."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace_left * _DRAIN_SHARE):
                    await self._context.drain(self._address)
        finally:
            # The node, or the end of the object, may have stopped them meanwhile, with less time than is left here.
            if not self._stopped.is_set():
                self._stop(self._grace_left)

    def on_removed(self) -> None:
        """Stop because the Pod object is gone; if the pod is stopping already, kill what is left of it."""
        self._gone.set()
        self._deleted.set()
        if self._stopped.is_set():
            for worker in self._all:
                worker.kill()
        else:
            self._stop(min(self._spec.termination_grace_period_seconds, _VANISHED_GRACE))

    def on_node_stop(self, longest: float) -> None:
        """Stop the processes because the node stops. Records and folder stay: the next node runs the pod again."""
        self._node_stops = True
        self._deleted.set()
        self._gone.set()
        self._stop(min(self._spec.termination_grace_period_seconds, longest))

    def restarted(self) -> PodWorker:
        """Return a new worker for the same pod, after this one failed by a bug."""
        worker = PodWorker(self._context, self._pod)
        # The watch tells the end of an object once. Told to the failed worker, it would never reach the new one.
        if self._gone.is_set():
            worker.on_removed()
        return worker

    async def run(self) -> None:
        """Run the pod and return when its object is gone, or the node has stopped."""
        if self._pod.status.get("phase") not in OVER:
            await self._run_and_report()
        # Before the wait: a Job's pod stays for days after it has completed, and must not hold a GPU.
        self._context.gpus.give_back(self._uid)
        await self._deleted.wait()
        if not self._gone.is_set():
            await self._confirm_deleted()
        # Only when the object is gone: until then `kubectl logs` may ask, and the Service may still name the address.
        await self._gone.wait()
        if not self._node_stops:
            self._folder.remove()
            self._context.addresses.give_back(self._uid)

    @property
    def _all(self) -> tuple[ContainerWorker, ...]:
        return (*self._inits, *self._containers)

    def _worker_of(self, container: Container, policy: str) -> ContainerWorker:
        folder = self._folder.container(container.name)
        prepare = partial(self._launcher.prepare, container, folder)
        grace = self._spec.termination_grace_period_seconds
        return ContainerWorker(
            container, policy, prepare, folder, grace, ContainerCallbacks(self._changed.set, self._warn)
        )

    def _warn(self, warning: PodWarning) -> None:
        if self._warnings.add(warning):
            self._changed.set()

    def _stop(self, grace: float) -> None:
        self._stopped.set()
        self._stop_by = time.monotonic() + grace
        for worker in self._containers:
            worker.stop(grace)
        # Sidecars serve the containers until those have ended; `_run_pod` stops them then.
        if not any(worker.is_running for worker in self._containers):
            self._stop_inits(grace)

    def _stop_inits(self, grace: float) -> None:
        for worker in self._inits:
            worker.stop(grace)

    async def _run_and_report(self) -> None:
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(self._report_changes()), group.create_task(self._enforce_deadline())]
            await self._run_pod()
            for task in helpers:
                task.cancel()
        # Once more: the cancelled task may have been in the middle of a write.
        await self._report_status()
        await self._send_warnings()

    async def _enforce_deadline(self) -> None:
        if self._spec.active_deadline_seconds is None:
            return
        began = datetime.fromisoformat(self._pod.status.get("startTime", self._first_seen))
        await asyncio.sleep(self._spec.active_deadline_seconds - (datetime.now(UTC) - began).total_seconds())
        if not self._stopped.is_set():
            self._overdue = True
            self._stop(self._spec.termination_grace_period_seconds)

    async def _run_pod(self) -> None:
        await self._mount_volumes()
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(self._refresh_volumes())
            if await self._initialize(group):
                await self._run_containers()
            # Sidecars are the last to end. They have what the containers have left of the grace period.
            left = min(self._stop_by - time.monotonic(), self._spec.termination_grace_period_seconds)
            self._stop_inits(max(left, _LEAST_GRACE))
            renewing.cancel()

    async def _mount_volumes(self) -> None:
        meta = self._pod.meta
        self._folder.make(PodName(meta.namespace, meta.name, meta.label(names.INSTANCE_LABEL)))
        backoff = Backoff(_FIRST_RETRY, _LONGEST_RETRY)
        while not self._stopped.is_set():
            try:
                await self._volumes.prepare()
            except (ModelyardError, OSError) as error:
                self._set_waiting(waiting_for(error))
            else:
                return self._set_waiting(CREATING)
            await pause(backoff.delay(), until=self._stopped)
        return None

    def _set_waiting(self, waiting: Waiting) -> None:
        # By this reason `kubectl get pods` shows `Init:0/1`, and not the reason itself.
        shown = INITIALIZING if self._inits and waiting is CREATING else waiting
        for worker in self._all:
            worker.set_waiting(shown)

    async def _refresh_volumes(self) -> None:
        while self._volumes.may_change:
            await asyncio.sleep(self._context.timings.volumes)
            try:
                await self._volumes.prepare()
            except (ModelyardError, OSError) as error:
                _log.warning("volumes are not renewed", pod=str(self._pod.meta.key), error=str(error))

    async def _initialize(self, group: asyncio.TaskGroup) -> bool:
        """Run the init containers one after the other; return whether the containers of the pod may start."""
        for worker in self._inits:
            if worker.container.is_sidecar:
                group.create_task(worker.run())
                await worker.wait_started()
                continue
            await worker.run()
            if not worker.succeeded:
                return False
        return not self._stopped.is_set()

    async def _run_containers(self) -> None:
        async with asyncio.TaskGroup() as group:
            for worker in self._containers:
                group.create_task(worker.run())

    async def _report_changes(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(_BATCH_SECONDS)
            # Before the write: cleared after it, a change that comes during the write would never be reported.
            self._changed.clear()
            await self._report_status()
            await self._send_warnings()

    async def _report_status(self) -> None:
        """Make the stored status show the state of the containers; retry until it does, or the object is gone."""
        backoff = Backoff(_FIRST_RETRY, _LONGEST_RETRY)
        while not self._gone.is_set():
            try:
                return await self._write_status()
            except (NotFound, Conflict):
                return None  # the object is gone, or replaced by another of its name: the watch tells which
            except KubeError as error:
                _log.warning("status is not written", pod=str(self._pod.meta.key), error=str(error))
            await pause(backoff.delay(), until=self._gone)
        return None

    async def _send_warnings(self) -> None:
        for warning in self._warnings.take():
            try:
                await self._context.client.create(EVENT, event(self._pod, self._spec.node_name, warning))
            except KubeError as error:
                _log.warning("event is not written", pod=str(self._pod.meta.key), error=str(error))

    async def _write_status(self) -> None:
        before = self._pod.status
        patch = changed(pod_status(self._facts(), before, timestamp()), before)
        if patch:
            # With the UID as precondition: a StatefulSet may have made a successor of the same name.
            body = {"metadata": {"uid": self._uid}, "status": patch}
            self.update(await self._context.client.merge_patch(POD, self._pod.meta.key, body, "status"))

    def _facts(self) -> PodFacts:
        return PodFacts(
            uid=self._uid,
            spec=pod_spec(self._pod),
            address=self._address.shown,
            started=self._first_seen,
            inits=tuple(worker.status for worker in self._inits),
            containers=tuple(worker.status for worker in self._containers),
            stopping=self._stopped.is_set(),
            overdue=self._overdue,
        )

    async def _confirm_deleted(self) -> None:
        """Delete the object with grace period 0, which tells the API server that nothing of the pod runs any more."""
        while not self._gone.is_set():
            try:
                return await self._context.client.delete(POD, self._pod.meta.key, self._uid, grace=0)
            except (NotFound, Conflict):
                return None
            except KubeError as error:
                _log.warning("pod is not confirmed as ended", pod=str(self._pod.meta.key), error=str(error))
                await pause(_FIRST_RETRY, until=self._gone)
        return None


def grace_left(meta: Metadata, now: datetime) -> float:
    """Return how many seconds a pod that is being deleted still has to end, at least one.

    Its deletion timestamp is the time by which it must have ended, not the time of the request.
    """
    left = (datetime.fromisoformat(meta.deletion_timestamp or now.isoformat()) - now).total_seconds()
    given = meta.deletion_grace_period_seconds
    # Never more than was given: the clock of the machine may have been set back since the request.
    return max(left if given is None else min(left, given), _LEAST_GRACE)
