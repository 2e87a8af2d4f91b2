"""The commands of one-machine mode behind their command lines, which `cli.up` reads."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvloop

from modelyard.core.errors import ModelyardError
from modelyard.local.node.process.images import ImageTable
from modelyard.local.up import detach
from modelyard.local.up.default_manifests import documents_for_source
from modelyard.local.up.log_file import log_to
from modelyard.local.up.query import log_command, query_rows, running
from modelyard.local.up.run import UpRequest, explained, run
from modelyard.local.up.screen import Screen, console, hints, report
from modelyard.local.up.state_folder import StateFolder, default_path
from modelyard.local.up.user_manifests import read_files
from modelyard.manifests.documents import at_home

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HURRIED: Final = 130


class NotServing(ModelyardError):
    """An object does not serve, while `modelyard up` goes on in the background."""


def up(
    files: Sequence[str],
    model: str,
    path: Path | None,
    images: Path | None,
    door_port: int | None,
    *,
    detached: bool,
    patience: float = math.inf,
) -> None:
    """Start everything, and return when it was stopped.

    Detached: return when all objects are ready, or known not to get ready by themselves, or after `patience` seconds.
    """
    documents = [*read_files(files), *(documents_for_source(model) if model else ())]
    programs = ImageTable.with_file(images) if images else ImageTable()
    request = UpRequest(_folder(path), programs, tuple(documents), door_port)
    # Before anything is started: every child inherits it for the files that it writes.
    os.umask(0o077)
    with explained(request.folder.path):
        request.folder.prepare()
        if detached:
            detach.start(request.folder, request.documents, _options(images, door_port), _say, patience)
            _expect_ready(request.folder)
            return
        log_to(request.folder.logs / "node.log")
        screen = Screen(console())
        uvloop.run(_until_stopped(run(request, screen), screen.console.show_cursor))


def _options(images: Path | None, door_port: int | None) -> list[str]:
    """Return the options that the process in the background needs besides its folder and manifests."""
    return [
        *([f"--images={images.absolute()}"] if images else []),
        *([f"--door-port={door_port}"] if door_port is not None else []),
    ]


def _expect_ready(folder: StateFolder) -> None:
    late = [
        f"{row.kind} {row.name} ({row.reason or row.phase})"
        for row in asyncio.run(query_rows(folder))
        if not row.is_as_wanted
    ]
    if late:
        raise NotServing(f"not ready: {', '.join(late)}; it goes on in the background, see {folder.hint('status')}")


def down(path: Path | None) -> None:
    """Stop the `modelyard up` of a folder, and keep its state."""
    folder = _folder(path)
    with explained(folder.path):
        record = folder.read_record()
        if record is not None:
            detach.stop(folder, record)
    _say("stopped" if record else f"nothing runs in {folder.path}")


def status(path: Path | None) -> None:
    """Show all objects of a folder's `modelyard up`, and the commands to try next."""
    folder = _folder(path)
    with explained(folder.path):
        record, rows = running(folder), asyncio.run(query_rows(folder))
    report(console(), rows, hints(rows, folder.kubeconfig, record))


def logs(name: str, namespace: str, path: Path | None, *, follow: bool) -> None:
    """Show the logs of an object's pods, or of a program of ours: replace this process by kubectl or tail."""
    folder = _folder(path)
    with explained(folder.path):
        command = asyncio.run(log_command(folder, namespace, name, follow=follow))
    os.execvp(command[0], command)  # noqa: S606 - words of ours, and no shell reads them


def _folder(given: Path | None) -> StateFolder:
    return StateFolder(at_home(given) if given else default_path(os.environ, Path.home()))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _until_stopped(work: Coroutine[Any, Any, object], leave: Callable[[], object]) -> None:
    """Run the work until a signal cancels it. A second signal exits at once, after `leave` has mended the terminal."""
    task = asyncio.ensure_future(work)

    def stop() -> None:
        if task.cancelling():
            leave()
            # Lifelines and the reaper end what we have started.
            os._exit(_HURRIED)
        task.cancel()

    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        return
