"""Follow the pods that are bound to this node and run a worker for each, for as long as the API knows the pod.

`node` runs it; its counterpart is the sync loop of the kubelet with its `podWorkers`. Level-based: what counts is which
pods there are, not which event told so. A bug in one worker is logged, and ends none of the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from modelyard.core.resources import POD
from modelyard.kube.watch import Target, follow
from modelyard.local.node.pods.pod_worker import PodWorker
from modelyard.local.node.process.listeners import beyond_loopback, listening_containers
from modelyard.local.node.process.reaper import mark
from modelyard.local.node.storage.pod_folders import PodFolder, pod_uids

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.core.resources import Key
    from modelyard.kube.errors import KubeError
    from modelyard.local.node.pods.node_context import NodeContext
    from modelyard.local.node.pods.probes import ContainerAccess
    from modelyard.local.node.proxy.addresses import HostPort, PodAddress

_log = structlog.get_logger()

# All pods together when the node stops: a user who pressed Ctrl-C does not wait for longer grace periods.
_STOP_SECONDS: Final = 10.0
_STOP_SLACK: Final = 5.0
_LOOKS: Final = 2


class PodWorkers:
    """The workers of all pods of one node. It is the sink of the pod watch, and what the server asks."""

    def __init__(self, context: NodeContext, node: str) -> None:
        self._context, self._node = context, node
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Run all pods until cancelled; then stop their processes and return."""
        target = Target(POD, field_selector=f"spec.nodeName={self._node}")
        watching = asyncio.create_task(self._watch_listeners())
        try:
            await follow(self._context.client, target, self)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._stop_all()

    def uid(self, pod: Key) -> str | None:
        """Return the UID of a pod of this node by its name; None: the node runs no such pod.

        Of two pods with the same name, one of which is being deleted, it is the newer one.
        """
        named = [uid for uid, worker in self._workers.items() if worker.pod.meta.key == pod]
        return named[-1] if named else None

    def is_running(self, uid: str, container: str) -> bool:
        """Whether the process of a container runs now; False also for a pod that is not here."""
        return uid in self._workers and self._workers[uid].is_running(container)

    def access(self, uid: str, container: str) -> ContainerAccess | None:
        """Return how probes and `exec` reach a container; None: it does not run, or the pod is not here."""
        return self._workers[uid].access(container) if uid in self._workers else None

    def address(self, pod: Key) -> PodAddress | None:
        """Return where the processes of a pod listen; None: the node runs no such pod."""
        uid = self.uid(pod)
        return self._workers[uid].address if uid else None

    def replace(self, items: list[Stored], revision: int) -> None:  # noqa: ARG002 - workers compare revisions
        """Take the result of a LIST: these are all pods of the node."""
        present = {item.meta.uid for item in items}
        for uid in self._workers.keys() - present:
            self._workers[uid].on_removed()
        # Folders of pods that were deleted while no node ran.
        for uid in set(pod_uids(self._context.state)) - present - self._workers.keys():
            PodFolder(self._context.state, uid).remove()
        for item in items:
            self.upsert(item)

    def upsert(self, item: Stored) -> None:
        """Take a pod that was added or modified: pass it to its worker, or start one."""
        uid = item.meta.uid
        if uid in self._workers:
            self._workers[uid].update(item)
            return
        try:
            self._workers[uid] = PodWorker(self._context, item)
        except Exception:
            _log.exception("bug in the birth of a pod", pod=str(item.meta.key))
        else:
            self._tasks[uid] = asyncio.create_task(self._supervise(uid))

    def remove(self, item: Stored) -> None:
        """Take a pod that is gone from the API, and tell its worker."""
        if item.meta.uid in self._workers:
            self._workers[item.meta.uid].on_removed()

    def trouble(self, error: KubeError | None) -> None:
        """Log why the watch is interrupted; None: it goes on again. Pods run on meanwhile."""
        if error is not None:
            _log.warning("pods cannot be followed", node=self._node, error=str(error))

    async def _watch_listeners(self) -> NoReturn:
        """Tell pods which of their containers listen beyond loopback."""
        looks: Counter[str] = Counter()
        while True:
            await asyncio.sleep(self._context.timings.listeners)
            try:
                looks = await self._look_for_listeners(looks)
            except Exception:
                _log.exception("bug in the look for listeners")

    async def _look_for_listeners(self, looks: Counter[str]) -> Counter[str]:
        found = await asyncio.to_thread(beyond_loopback)
        # Few sockets are ours, and to find their processes is dear, so each is looked for twice and not for ever. Once
        # is not enough: the worker of a container that has just started may not hold its process yet.
        looks = Counter({inode: looks[inode] + 1 for inode in found})
        if news := {inode: place for inode, place in found.items() if looks[inode] <= _LOOKS}:
            self._tell_listeners(await asyncio.to_thread(listening_containers, mark(self._context.state), news))
        return looks

    def _tell_listeners(self, found: dict[str, list[HostPort]]) -> None:
        for name, places in found.items():
            uid, _, container = name.partition("/")
            if uid in self._workers:
                self._workers[uid].on_listening(container, places)

    async def _supervise(self, uid: str) -> None:
        while True:
            try:
                await self._workers[uid].run()
                break
            except Exception:
                _log.exception("bug in the life of a pod", pod=str(self._workers[uid].pod.meta.key))
            await asyncio.sleep(self._context.timings.after_bug)
            self._workers[uid] = self._workers[uid].restarted()
        del self._workers[uid], self._tasks[uid]

    async def _stop_all(self) -> None:
        for worker in self._workers.values():
            worker.on_node_stop(_STOP_SECONDS)
        tasks = list(self._tasks.values())
        if not tasks:
            return
        _, stuck = await asyncio.wait(tasks, timeout=_STOP_SECONDS + _STOP_SLACK)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
