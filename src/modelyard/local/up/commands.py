"""The commands of one-machine mode behind their command lines, which `cli.up` reads."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard import event_loop
from modelyard.core.errors import ModelyardError
from modelyard.home import at_home
from modelyard.kinds.model.sizes import size_text
from modelyard.kube.errors import KubeError
from modelyard.local.node.process.images import ImageTable
from modelyard.local.open_files import raise_open_files
from modelyard.local.up import detach
from modelyard.local.up.apply import apply_all
from modelyard.local.up.default_manifests import documents_for_sources
from modelyard.local.up.ended_logs import find_ended_logs, write_logs
from modelyard.local.up.log_file import log_to
from modelyard.local.up.query import NoLogs, NotUp, connected, follow_rows, log_command, query_rows, running
from modelyard.local.up.rows import Row
from modelyard.local.up.run import UpRequest, explained, run
from modelyard.local.up.screen import Screen, console, hints, report
from modelyard.local.up.state_folder import StateFolder, usual_path
from modelyard.local.up.user_manifests import missing_files, read_files
from modelyard.local.up.weights import Weights, are_kept, list_weights, remove
from modelyard.manifests.documents import BadManifest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from modelyard.core.objects import Stored
    from modelyard.manifests.documents import Document

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HURRIED: Final = 130


class NotServing(ModelyardError):
    """An object does not serve, while `modelyard up` goes on in the background."""


class UpOptions(Struct, frozen=True):
    """The command line of `modelyard up`."""

    files: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    folder: Path | None = None
    images: Path | None = None
    door_port: int | None = None
    """The port of the one address for all models; None: as last time."""
    host_networks: tuple[str, ...] = ()
    """Where InferenceHosts may be; empty: nowhere that is not public."""
    detached: bool = False
    patience: float = math.inf
    """Detached: the seconds to wait for objects that are neither ready nor known to need help."""
    handed_over: Path | None = None
    """The manifests that a process in the foreground has read for us; None: this is that process."""


def up(options: UpOptions) -> None:
    """Start everything, and return when it was stopped.

    Detached: return when all objects are ready, or known not to get ready by themselves, or when patience ends.
    """
    folder = _folder(options.folder)
    handed_over = detach.read_handed_over(options.handed_over) if options.handed_over else []
    documents = [*handed_over, *_documents(options.files, options.models, folder)]
    rules = ImageTable.with_file(options.images) if options.images else None
    # Before anything is started: every child inherits both.
    os.umask(0o077)
    raise_open_files()
    with explained(folder.path):
        folder.prepare()
        folder.expect_free()
        if options.images:
            folder.keep_image_rules(options.images)
        if options.detached:
            detach.start(folder, documents, _passed_on(options), _say, options.patience)
            _expect_ready(folder)
            return
        log_to(folder.logs / "node.log")
        screen = Screen(console())
        images = rules or _kept_image_rules(folder)
        request = UpRequest(folder, images, tuple(documents), options.door_port, options.host_networks)
        event_loop.run(_until_stopped(run(request, screen), screen.console.show_cursor))


def _passed_on(options: UpOptions) -> list[str]:
    """Return the flags that the process in the background needs, too."""
    port = [f"--door-port={options.door_port}"] if options.door_port is not None else []
    return [*port, *(f"--host-networks={network}" for network in options.host_networks)]


def _documents(files: Sequence[str], models: Sequence[str], folder: StateFolder) -> list[Document]:
    """Return what the user names, and say which files are missing, of which only the cache has the weights."""
    is_kept = partial(are_kept, folder.path)
    made = [*read_files(files, is_kept), *documents_for_sources(models, is_kept)]
    for file in missing_files(made):
        _say(f"there is no file {file}; its copy in the cache is served")
    return made


def _kept_image_rules(folder: StateFolder) -> ImageTable:
    return ImageTable.with_file(folder.image_rules) if folder.image_rules.exists() else ImageTable()


def _expect_ready(folder: StateFolder) -> None:
    try:
        rows = asyncio.run(query_rows(folder))
        late = [f"{row.kind} {row.name} ({row.reason or row.phase})" for row in rows if not row.is_as_wanted]
    except (NotUp, KubeError):
        # The timeout was shorter than the start of the API server.
        late = ["the machine itself is still starting"]
    if late:
        raise NotServing(f"not ready: {', '.join(late)}; it goes on in the background, see {folder.hint('status')}")


def apply(files: Sequence[str], models: Sequence[str], path: Path | None) -> None:
    """Apply manifests to the `modelyard up` of a folder, and name each object that was applied."""
    folder = _folder(path)
    documents = _documents(files, models, folder)
    if not documents:
        raise BadManifest("there is nothing to apply; name manifests with -f, or a source of weights with --model")
    with explained(folder.path):
        for item in asyncio.run(_apply(folder, documents)):
            _say(f"{item.resource.kind} {item.meta.name}: applied")
    _say(f"see what becomes of it with {folder.hint('status -w')}")


async def _apply(folder: StateFolder, documents: Sequence[Document]) -> list[Stored]:
    async with connected(folder) as client:
        return await apply_all(client, documents)


def down(path: Path | None, *, purge: bool = False) -> None:
    """Stop the `modelyard up` of a folder, and keep its state; `purge`: remove the folder with all that is in it."""
    folder = _folder(path)
    with explained(folder.path):
        record = folder.read_record()
        if record is not None:
            detach.stop(folder, record)
        _say("stopped" if record else f"nothing runs in {folder.path}")
        if purge:
            size = size_text(folder.purge())
            _say(f"removed {folder.path}, with {size} of objects, weights and logs")


class Status(Struct, frozen=True):
    """What `modelyard status -o json` prints."""

    folder: str
    kubeconfig: str
    objects: list[Row]


def status(path: Path | None, *, watch: bool = False, as_json: bool = False) -> None:
    """Show all objects of a folder's `modelyard up`, and the commands to try next; `watch`: after each change again."""
    folder = _folder(path)
    with explained(folder.path):
        record = running(folder)
        if watch:
            _watch(folder, as_json=as_json)
            return
        rows = asyncio.run(query_rows(folder))
    if as_json:
        _print_json(folder, rows)
        return
    if not rows:
        _say(f"there are no objects; make some with {folder.hint('apply -f FILE')}")
    report(console(), rows, hints(rows, folder.kubeconfig, record))


def _watch(folder: StateFolder, *, as_json: bool) -> None:
    screen = Screen(console())
    last: list[Row] | None = None

    def print_changed(rows: list[Row]) -> None:
        nonlocal last
        if rows != last:
            _print_json(folder, rows)
        last = rows

    with nullcontext() if as_json else screen:
        following = follow_rows(folder, print_changed if as_json else screen.show)
        event_loop.run(_until_stopped(following, screen.console.show_cursor))


def _print_json(folder: StateFolder, rows: list[Row]) -> None:
    _say(msgspec.json.encode(Status(str(folder.path), str(folder.kubeconfig), rows)).decode())


def weights(path: Path | None, *, prune: bool) -> None:
    """List the weights in the caches of a folder's `modelyard up`; `prune`: remove those of deleted Models."""
    folder = _folder(path)
    with explained(folder.path):
        found = asyncio.run(_weights(folder))
        for each in found:
            owner = ", ".join(f"Model {name}" for name in each.models) or (
                "in use by a pod" if each.is_mounted else "of a deleted Model"
            )
            _say(f"{size_text(each.size):>10}  {each.namespace}  {owner}  {each.source or 'not complete'}")
        removable = [each for each in found if each.is_removable]
        if prune:
            _say(f"removed {size_text(remove(removable))}")
        elif removable:
            size = size_text(sum(each.size for each in removable))
            _say(f"{size} of deleted Models can be removed with {folder.hint('weights --prune')}")
        elif not found:
            _say(f"there are no weights in {folder.path}")


async def _weights(folder: StateFolder) -> list[Weights]:
    async with connected(folder) as client:
        return await list_weights(client, folder.path)


def logs(name: str, namespace: str, path: Path | None, *, follow: bool, previous: bool = False) -> None:
    """Show the logs of an object's pods, or of a program of ours: replace this process by kubectl or tail.

    `previous`, or nothing of it runs: show the logs of what has ended.
    """
    folder = _folder(path)
    with explained(folder.path):
        is_running = folder.read_record() is not None
        ended = find_ended_logs(folder.path, namespace, name, is_running=is_running)
        try:
            command = [] if previous else asyncio.run(log_command(folder, namespace, name, follow=follow))
        except (NotUp, NoLogs):
            if not ended:
                raise
            command = []
    if command:
        # Python ignores it, and what we become would inherit that, and complain when a reader such as `head` goes.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606 - words of ours, and no shell reads them
    if not ended:
        raise NoLogs(f"no log of anything that has ended is kept of {name} in the namespace {namespace}")
    write_logs(ended, sys.stdout.buffer)


def _folder(given: Path | None) -> StateFolder:
    path = at_home(given) if given else usual_path()
    if path is None:
        raise ModelyardError("this user has no home folder; set HOME, or name a folder with --dir")
    return StateFolder(path)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _until_stopped(work: Coroutine[Any, Any, object], leave: Callable[[], object]) -> None:
    """Run the work until a signal cancels it. A second signal exits at once, after `leave` has mended the terminal."""
    task, is_told = asyncio.ensure_future(work), False

    def stop() -> None:
        nonlocal is_told
        if is_told:
            leave()
            # Lifelines and the reaper end what we have started.
            os._exit(_HURRIED)
        is_told = True
        # A part that has failed cancels it as well. Then it is stopping already, and has yet to say why.
        if not task.cancelling():
            task.cancel()

    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        # Without a signal it is a bug, and must not look like an end that was asked for.
        if not is_told:
            raise
