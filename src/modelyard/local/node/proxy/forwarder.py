"""Forward the TCP connections of one address to the endpoints of a Service: one rule of kube-proxy.

`service_proxy` makes one `Forwarder` per port of a Service. Each connection goes to the target with the fewest. Without
targets a caller is refused at once, and a target that does not answer is passed over for the next. When the targets
change, open connections go on until one of their sides closes them.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError
from modelyard.local.node.proxy.pipe import PipeEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from modelyard.local.node.proxy.addresses import HostPort, PodAddress

_BACKLOG: Final = 1024
_CONNECT_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.5
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class AddressInUse(ModelyardError):
    """All addresses on which a Service may listen are used by other programs."""


class _Target:
    """An endpoint, and its open connections."""

    def __init__(self, address: HostPort) -> None:
        self.address = address
        self.ends: set[PipeEnd] = set()
        self.turn = 0


class Forwarder:
    """Binds the first of some addresses that is free, and forwards its connections. Made inside an event loop."""

    def __init__(self, addresses: Sequence[HostPort]) -> None:
        self._choices = tuple(addresses)
        self.address, self._socket = _first_free(self._choices)
        self._loop = asyncio.get_running_loop()
        self._listens = False
        self._turn = 0
        self._targets: dict[HostPort, _Target] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._ends: dict[PipeEnd, _Target | None] = {}

    @property
    def is_idle(self) -> bool:
        """Whether there are no connections."""
        return not self._ends and not self._connecting

    def awaits(self, pod: PodAddress, quiet: float) -> bool:
        """Whether a caller waits for an answer of a pod, or has received a part of it in the last `quiet` seconds."""
        answering = ((end, target.address) for end, target in self._ends.items() if target)
        return any(pod.has(address) and end.is_awaited(quiet) for end, address in answering)

    def set_targets(self, targets: Iterable[HostPort]) -> None:
        """Send new connections to these targets; without any, refuse them. `AddressInUse`: another program listens."""
        self._targets = {address: self._targets.get(address) or _Target(address) for address in targets}
        if self._targets and not self._listens:
            self._listen()
        elif self._listens and not self._targets:
            self._refuse()

    def close(self) -> None:
        """Give up the address. Open connections go on."""
        self._stop_listening()
        self._targets = {}

    async def stop(self) -> None:
        """Give up the address and reset all connections."""
        # Listening ends first: a caller that is accepted during the loop below would keep it going.
        self.close()
        joining = list(self._connecting)
        for task in joining:
            task.cancel()
        await asyncio.gather(*joining, return_exceptions=True)
        while self._ends:
            for end in tuple(self._ends):
                end.abort()
            await asyncio.sleep(0)

    def _listen(self) -> None:
        try:
            self._socket.listen(_BACKLOG)
        except OSError as error:  # two sockets may bind the same address, but only one may listen
            raise _in_use([self.address], error) from error
        self._loop.add_reader(self._socket, self._accept)
        self._listens = True

    def _refuse(self) -> None:
        # A socket that listens cannot be told to stop. A new one that is only bound keeps the address, and the kernel
        # refuses every connection to it. A better address may be free by now: that of a pod that had to end.
        self._stop_listening()
        self.address, self._socket = _first_free(self._choices)

    def _stop_listening(self) -> None:
        if self._listens:
            self._loop.remove_reader(self._socket)
        self._listens = False
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(_BACKLOG):
            try:
                caller, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._pause()
                return
            task = self._loop.create_task(self._connect_caller(caller))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    def _pause(self) -> None:
        # No descriptor is free for the caller, who stays in the queue: the loop would call us again without end.
        self._loop.remove_reader(self._socket)
        self._loop.call_later(_PAUSE_SECONDS, self._resume, self._socket)

    def _resume(self, paused: socket.socket) -> None:
        # The socket may have been replaced or closed during the pause.
        if self._listens and paused is self._socket:
            self._loop.add_reader(paused, self._accept)

    async def _connect_caller(self, caller: socket.socket) -> None:
        caller.setblocking(False)
        try:
            _, calling = await self._loop.connect_accepted_socket(self._end, caller)
        except OSError:
            caller.close()
            return
        answering = await self._connect_any()
        if answering is None:
            calling.abort()
        else:
            calling.join(answering)

    async def _connect_any(self) -> PipeEnd | None:
        untried = list(self._targets.values())
        while untried:
            target = min(untried, key=_load)
            untried.remove(target)
            if end := await self._connect(target):
                return end
        return None

    async def _connect(self, target: _Target) -> PipeEnd | None:
        self._turn = target.turn = self._turn + 1
        # Counted before the connection is open: otherwise all callers of one moment would go to the same target.
        end = self._end(target)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await self._loop.create_connection(lambda: end, *target.address)
        except BaseException as error:
            self._forget(end, target)
            if isinstance(error, OSError):
                return None
            raise
        return end

    def _end(self, target: _Target | None = None) -> PipeEnd:
        end = PipeEnd(lambda lost: self._forget(lost, target))
        self._ends[end] = target
        if target is not None:
            target.ends.add(end)
        return end

    def _forget(self, end: PipeEnd, target: _Target | None) -> None:
        self._ends.pop(end, None)
        if target is not None:
            target.ends.discard(end)


def _load(target: _Target) -> tuple[int, int]:
    # Among equals, the one that was chosen longest ago.
    return len(target.ends), target.turn


def _first_free(addresses: Sequence[HostPort]) -> tuple[HostPort, socket.socket]:
    first: OSError | None = None
    for address in addresses:
        try:
            return address, _bound(address)
        except OSError as error:
            first = first or error
    assert first is not None
    raise _in_use(addresses, first)


def _in_use(addresses: Sequence[HostPort], why: OSError) -> AddressInUse:
    tried = " and ".join(map(str, addresses[:2]))
    return AddressInUse(f"nothing can listen on {tried}: {why.strerror}; end the program that uses the port")


def _bound(address: HostPort) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET)
    try:
        listening.setblocking(False)
        # Connections of the last process that listened here may still be in TIME_WAIT.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening
