"""`modelyard fetch`: what init containers and Jobs run to get weights onto a volume.

Speaks JSON, one line at a time, on standard output. The last line is the result, and is the termination message of the
container as well. Credentials come from the environment, never from the command line; so can a source
that holds some.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from modelyard.core.exitcodes import Code
from modelyard.weights.failures import FetchFailed
from modelyard.weights.fetch import fetch as bring
from modelyard.weights.settings import FetchSettings
from modelyard.weights.types import FetchRequest, Refresh, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.weights.fetch import Fetched

TERMINATION_LOG: Final = "/dev/termination-log"

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_ETAG_LIMIT: Final = 256  # as much of it as the operator keeps
_TEXT_LIMIT: Final = 1500  # the kubelet keeps 4096 bytes of a termination message, and cut JSON is no JSON


class Result(msgspec.Struct, frozen=True):
    """The last line: how it ended, and what to do about it."""

    result: str
    message: str
    remedy: str = ""
    bytes: int = 0
    sha256: str = ""
    file: str = ""
    etag: str = ""
    kept: str = ""
    """Why an earlier copy is used; empty: it is what the source has."""


def fetch(
    source: Annotated[
        str,
        typer.Argument(envvar="MODEL_SOURCE", help="A URL, org/repo, hf://, s3://, file:// or an absolute path."),
    ],
    to: Annotated[Path, typer.Option(help="The folder to fetch into.")],
    file: Annotated[list[str] | None, typer.Option(help="A file of a repository or prefix. Can be repeated.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every file of a repository or prefix.")] = False,
    link: Annotated[str, typer.Option(help="A second name for the file to serve: a link in the folder.")] = "",
    sha256: Annotated[str, typer.Option(help="What the one file must hash to.")] = "",
    checksum: Annotated[
        list[str] | None, typer.Option(help="NAME=SHA256: what one file must hash to. Can be repeated.")
    ] = None,
    refresh: Annotated[Refresh, typer.Option(help="When to fetch again what is there.")] = Refresh.IF_NOT_PRESENT,
    verify: Annotated[bool, typer.Option("--verify", help="Read what is there again and compare its hashes.")] = False,
    ca: Annotated[Path | None, typer.Option(help="PEM certificates to trust besides those of the system.")] = None,
    allow_root: Annotated[
        list[Path] | None, typer.Option(help="A folder that local sources may be in. Can be repeated.")
    ] = None,
    prune_except: Annotated[
        list[str] | None,
        typer.Option(help="Remove the weights in folders beside this one, but for the one named. Can be repeated."),
    ] = None,
) -> None:
    """Fetch weights into a folder: resumed, verified, and whole or not there. Credentials come by environment."""
    request = FetchRequest(
        source=source,
        folder=to,
        files=tuple(file or ()),
        everything=everything,
        link=link,
        sha256=sha256.lower(),
        checksums=_checksums(checksum or ()),
        refresh=refresh,
        verify=verify,
        ca=ca,
        allowed_roots=tuple(allow_root or ()),
        prune_except=tuple(prune_except or ()),
    )
    _share_with_group()
    code, result = asyncio.run(_run(request))
    _report(result)
    raise typer.Exit(code)


def _checksums(given: Iterable[str]) -> dict[str, str]:
    pairs = (entry.rpartition("=") for entry in given)
    sums = {name: value.lower() for name, _, value in pairs}
    if not all(name and _SHA256.fullmatch(value) for name, value in sums.items()):
        raise typer.BadParameter("write NAME=SHA256, with 64 hexadecimal digits", param_hint="--checksum")
    return sums


def _share_with_group() -> None:
    """Let the group of a volume (fsGroup) replace what is fetched: the next one to fetch may be another user of it."""
    before = os.umask(0o002)
    if before & 0o040:
        # A umask that keeps the group out altogether was set on purpose.
        os.umask(before)


async def _run(request: FetchRequest) -> tuple[Code, Result]:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        return Code.OK, _success(request, await bring(request, FetchSettings.of(os.environ), RetryPolicy(), _say))
    except FetchFailed as failure:
        return failure.code, Result(failure.code.word, _clipped(failure.message), _clipped(failure.remedy))
    except asyncio.CancelledError:
        # Only our own signal handler cancels this task, and it is about to end.
        return Code.STOPPED, Result(Code.STOPPED.word, "stopped by a signal", "run it again: it goes on from here")


def _success(request: FetchRequest, fetched: Fetched) -> Result:
    choice, kept = fetched.choice, _clipped(fetched.kept_because)
    first = choice.files[0]
    message = _clipped(f"{len(choice.files)} file(s) of {request.shown}")
    result = Result(Code.OK.word, message, bytes=choice.size, file=first.name, kept=kept)
    if len(choice.files) > 1:
        return result
    return msgspec.structs.replace(result, sha256=first.sha256, etag=first.etag[:_ETAG_LIMIT])


def _report(result: Result) -> None:
    line = msgspec.json.encode(result) + b"\n"
    sys.stdout.write(line.decode())
    sys.stdout.flush()
    log = Path(os.environ.get("TERMINATION_LOG") or TERMINATION_LOG)
    # How it went is in the exit code and on standard output; where this cannot be written it must not change that.
    with suppress(OSError):
        if log.exists():
            log.write_bytes(line)


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()


def _clipped(text: str) -> str:
    return text.encode()[:_TEXT_LIMIT].decode(errors="ignore")
