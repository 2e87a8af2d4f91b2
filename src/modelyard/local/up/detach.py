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
"""How the last words of a `modelyard` begin, if it was ended by an error."""
_STOPPED: Final = "it was stopped before all was settled; what is stored stays"
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
        raise DidNotStart(_STOPPED) from None


def _until_settled(
    folder: StateFolder, process: subprocess.Popen[bytes], log: Path, say: Callable[[str], None], deadline: float
) -> None:
    is_ending = False
    with log.open("rb") as news:
        while True:
            # Before the output is read: then the last words of a process that has ended are shown, too.
            code, record = process.poll(), folder.read_record()
            lines = news.read().decode(errors="replace").splitlines()
            for line in lines:
                # The reason of an end may have several lines, and is told once, as that of this process.
                is_ending = is_ending or line.startswith(_REASON)
                if not is_ending:
                    say(line)
            if code is not None:
                # It ends without an error when it is told to, as by `modelyard down` in another terminal.
                raise DidNotStart(_last(log) if code else _STOPPED)
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
    _, found, reason = f"\n{log.read_text(errors='replace')}".rpartition(f"\n{_REASON}")
    return reason.strip() if found else f"it ended without a word; {log} may say why"


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
