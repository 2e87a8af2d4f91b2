"""Start `modelyard up` as a background process (`--detach`), and stop it (`modelyard down`). `commands` calls both."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from modelyard.core.errors import ModelyardError
from modelyard.local.files import write_private
from modelyard.local.up.state_folder import UpRecord
from modelyard.manifests.documents import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from modelyard.local.up.state_folder import StateFolder

HANDED_OVER: Final = "--handed-over"
"""The option by which the background process gets its manifests."""
LOG: Final = "up.log"
_REASON: Final = "modelyard: "
"""How the line begins that says why a `modelyard` has ended."""
_POLL_SECONDS: Final = 0.1
_STOP_SECONDS: Final = 90.0


class DidNotStart(ModelyardError):
    """The background process has ended before it was ready."""


class DidNotStop(ModelyardError):
    """The background process does not end."""


def start(
    folder: StateFolder,
    documents: Sequence[Document],
    options: Sequence[str],
    say: Callable[[str], None],
    patience: float = math.inf,
) -> None:
    """Start the background process, and return when its record says that it is settled, or after `patience` seconds.

    `say` gets its output.
    """
    log = folder.logs / LOG
    write_private(log, b"")
    process = _spawn(log, [f"--dir={folder.path}", *_handed_over(folder, documents), *options])
    try:
        _until_settled(folder, process, log, say, time.monotonic() + patience)
    except KeyboardInterrupt:
        # A user who presses Ctrl-C during the start does not want the rest of it in the background.
        stop(folder, UpRecord(process.pid))
        raise DidNotStart("it was stopped before all was settled; what is stored stays") from None


def _until_settled(
    folder: StateFolder, process: subprocess.Popen[bytes], log: Path, say: Callable[[str], None], deadline: float
) -> None:
    with log.open("rb") as news:
        while True:
            # Before the output is read: then the last words of a process that has ended are shown, too.
            code, record = process.poll(), folder.read_record()
            lines = news.read().decode(errors="replace").splitlines()
            # The reason of an end is told once, as that of this process.
            for line in lines:
                if not line.startswith(_REASON):
                    say(line)
            if code is not None:
                raise DidNotStart(_last(log))
            is_settled = record is not None and record.settled and record.pid == process.pid
            if is_settled or time.monotonic() > deadline:
                return
            time.sleep(_POLL_SECONDS)


def _spawn(log: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-P", "-m", "modelyard", "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _handed_over(folder: StateFolder, documents: Sequence[Document]) -> list[str]:
    """Return the option that hands over the manifests: standard input cannot be read twice, and paths are relative.

    With each goes the file that it comes from, which its errors name.
    """
    if not documents:
        return []
    return [f"{HANDED_OVER}={write_private(folder.path / 'start.json', msgspec.json.encode(documents))}"]


def read_handed_over(file: Path) -> list[Document]:
    """Return the manifests that the process in the foreground has read."""
    return msgspec.json.decode(file.read_bytes(), type=list[Document])


def _last(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    said = [line for line in lines if line.startswith(_REASON)]
    return said[-1].removeprefix(_REASON) if said else f"it ended without a word; {log} may say why"


def stop(folder: StateFolder, record: UpRecord) -> None:
    """Send SIGTERM to the background process, and return when it has released the lock of the folder."""
    with suppress(ProcessLookupError):
        os.kill(record.pid, signal.SIGTERM)
    give_up = time.monotonic() + _STOP_SECONDS
    while folder.is_held():
        if time.monotonic() > give_up:
            raise DidNotStop(
                f"process {record.pid} did not stop within {_STOP_SECONDS:.0f} s; end it with `kill -9 {record.pid}`: "
                "everything it started ends with it, and nothing is lost"
            )
        time.sleep(_POLL_SECONDS)
