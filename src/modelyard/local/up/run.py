"""`modelyard up` in the foreground: start the machine, apply manifests, and show the objects until cancelled.

`commands` calls it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from modelyard.core.errors import ModelyardError
from modelyard.kube.errors import Unavailable
from modelyard.local.files import is_full
from modelyard.local.node.process.images import ImageTable
from modelyard.local.up.apply import apply_all
from modelyard.local.up.assets import find_programs
from modelyard.local.up.default_manifests import documents_for_source, keep_yard, moved_yard
from modelyard.local.up.machine import Machine, MachineSettings, running_machine
from modelyard.local.up.screen import Screen, hints, report
from modelyard.local.up.state_folder import StateFolder, UpRecord
from modelyard.local.up.view import View
from modelyard.local.up.wait_ready import first_answer, wait_ready
from modelyard.manifests.documents import Document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import NoReturn

    from modelyard.local.up.rows import Row

_LEAST_DISK: Final = 512 * 2**20
_TELL_SECONDS: Final = 1.0
_DOOR_SECONDS: Final = 10.0


class Failed(ModelyardError):
    """The system refuses what `modelyard up` needs; the message says what to do."""


class UpRequest(Struct, frozen=True):
    """What the user asked `modelyard up` for."""

    folder: StateFolder
    images: ImageTable
    documents: tuple[Document, ...] = ()
    """The manifests to apply; empty: our own model, unless the folder holds objects already."""
    door_port: int | None = None
    """The port of the door; None: that of the last start, or 11400 if it is free, or another."""
    host_networks: tuple[str, ...] = ()
    """Where InferenceHosts may be; empty: nowhere that is not public."""


async def run(request: UpRequest, screen: Screen) -> NoReturn:
    """Run the machine until cancelled; then stop everything, each part before those that it needs."""
    with explained(request.folder.path), request.folder.held(), screen:
        check_disk(request.folder.path)
        screen.begin("programs")
        assets = await find_programs(lambda line: screen.begin("programs", line))
        screen.done("programs")
        settings = MachineSettings(request.folder, assets, request.images, request.door_port, request.host_networks)
        async with running_machine(settings, screen) as machine:
            try:
                await _Serving(machine, settings, screen).run(request.documents)
            finally:
                screen.say("stopping: operator, pods, node, control plane")
        raise AssertionError("serving ends by an error or by cancellation only")


class _Serving:
    """What `modelyard up` does while the machine runs."""

    def __init__(self, machine: Machine, settings: MachineSettings, screen: Screen) -> None:
        self._machine, self._folder, self._screen = machine, settings.folder, screen
        door = machine.door.url if machine.door else ""
        self._record = UpRecord(os.getpid(), str(settings.assets), door)
        self._view = View(lambda: machine.proxy.service_addresses)

    async def run(self, documents: Sequence[Document]) -> NoReturn:
        self._folder.write_record(self._record)
        async with self._view.following(self._machine.client), asyncio.TaskGroup() as group:
            group.create_task(self._publish_places())
            group.create_task(self._watch_folder())
            moved = moved_yard(self._view.items, self._folder.path)
            applied = await apply_all(self._machine.client, [*moved, *(documents or self._first_documents())])
            # Before the wait: it would settle on the objects of before, while a new one is still on its way to us.
            await self._view.has_seen(applied)
            early = group.create_task(self._tell_first())
            rows = await wait_ready(self._machine.proxy, self._view, self._screen)
            early.cancel()
            await self._open_door()
            self._report(rows)
            while True:
                await self._view.change()
                self._screen.show(self._view.rows())

    def _first_documents(self) -> Sequence[Document]:
        """Return the objects of our own model, unless there are objects already."""
        return () if self._view.items else documents_for_source(str(keep_yard(self._folder.path)))

    async def _tell_first(self) -> None:
        """Show the commands to try as soon as one service answers: the others may take hours to download."""
        row = await first_answer(self._view)
        await self._open_door()
        rows = self._view.rows()
        # If nothing is left to wait for, the report that follows at once shows them.
        if not all(each.is_as_wanted for each in rows):
            report(self._screen.console, (), self._hints([row, *(each for each in rows if each != row)]))

    async def _publish_places(self) -> NoReturn:
        told = None
        while True:
            service_addresses = self._machine.proxy.service_addresses
            # A full disk is no reason to stop serving. They are written when there is space again.
            with suppress(OSError):
                if told != service_addresses:
                    self._folder.write_service_addresses(service_addresses)
                    told = service_addresses
            await asyncio.sleep(_TELL_SECONDS)

    async def _watch_folder(self) -> None:
        """End everything when the folder is gone: no command would find this process any more, to stop it."""
        while self._folder.is_in_place():  # noqa: ASYNC110 - the system sends no event
            await asyncio.sleep(_TELL_SECONDS)
        raise Failed(
            f"{self._folder.path} was removed or moved, so everything is stopped; "
            f"start again with {self._folder.hint('up')}, and next time stop it before with {self._folder.hint('down')}"
        )

    async def _open_door(self) -> None:
        """Wait until the door leads to what is ready: the lines that are printed next must work."""
        door = self._machine.door
        if door is None:
            return
        try:
            async with asyncio.timeout(_DOOR_SECONDS):
                await door.open()
        except TimeoutError:
            self._screen.say(f"the door does not answer at {door.url}; {door.program.log} may say why")

    def _report(self, rows: Sequence[Row]) -> None:
        drawn = self._screen.freeze()
        report(self._screen.console, () if drawn else rows, [*self._hints(rows), "", self._goes_on()])
        self._folder.write_record(structs.replace(self._record, settled=True))

    def _goes_on(self) -> str:
        down, up = self._folder.hint("down"), self._folder.hint("up")
        return f"Ctrl-C or {down} stops everything; the next {up} goes on from here."

    def _hints(self, rows: Sequence[Row]) -> list[str]:
        page = self._machine.page.url if self._machine.page else ""
        return hints(rows, self._folder.kubeconfig, self._record, page)


def check_disk(path: Path) -> None:
    """Raise `Failed` when the disk of a folder is full: the errors of etcd and the API server would not say so."""
    if shutil.disk_usage(path).free < _LEAST_DISK:
        raise _full(path)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError in the block into a `Failed` of one line, and a group of errors into its cause.

    An API server that does not answer because the disk is full is told as that.
    """
    try:
        yield
    except Unavailable as error:
        if is_full(path):
            raise _full(path) from error
        raise
    except BaseExceptionGroup as group:
        first = _first(group)
        if isinstance(first, OSError):
            raise _of_system(first, path) from first
        raise first from None
    except OSError as error:
        raise _of_system(error, path) from error


def _of_system(error: OSError, path: Path) -> ModelyardError:
    if isinstance(error, TimeoutError):
        return Failed(f"the control plane did not answer in time; {path}/logs may say why, then start again")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path)
    return Failed(f"{error.filename or path}: {error.strerror or error}; mend that, or name another folder with --dir")


def _full(path: Path) -> ModelyardError:
    return Failed(f"the disk that holds {path} is full; free 1 GB or more, or name a folder elsewhere with --dir")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group that is not a cancellation, which is only a consequence of another error."""
    for error in group.exceptions:
        found = _first(error) if isinstance(error, BaseExceptionGroup) else error
        if not isinstance(found, asyncio.CancelledError):
            return found
    return group
