"""The steps of `modelyard fetch`: weights into a folder, whole or not at all. Called by `cli/fetch.py`.

Files are fetched and verified under partial names. When all are there, they get their names, and the manifest is
written last. Until then, what the folder held before stays as it was.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from modelyard.core.errors import SpecInvalid
from modelyard.core.exitcodes import Code
from modelyard.core.source import S3, Claim, Hub, Local, Source, Web, is_collection, parse
from modelyard.weights import link, volume
from modelyard.weights import manifest as manifests
from modelyard.weights.adopt import adopt
from modelyard.weights.choose import choose
from modelyard.weights.failures import Changed, FetchFailed
from modelyard.weights.http import downloads
from modelyard.weights.local import describe, is_copy, open_local
from modelyard.weights.lock import exclusive
from modelyard.weights.manifest import Choice, Kept
from modelyard.weights.names import MANIFEST, is_ours
from modelyard.weights.partial import Partial, sweep
from modelyard.weights.progress import Progress, Say
from modelyard.weights.prune import prune
from modelyard.weights.settings import FetchSettings, tls_context
from modelyard.weights.transfer import retried, stage
from modelyard.weights.types import FetchRequest, Refresh, RetryPolicy, SourceFile

if TYPE_CHECKING:
    import ssl

    from modelyard.weights.http import Downloads
    from modelyard.weights.types import Open

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_ROUNDS: Final = 3
"""How often the source may change while it is being fetched."""


class Fetched(msgspec.Struct, frozen=True):
    """The result of a fetch: the files of a request, all of them in the folder."""

    choice: Choice
    kept_because: str = ""
    """Why an earlier copy is used although the source should be looked at; empty: it is what the source has."""


async def fetch(request: FetchRequest, settings: FetchSettings, policy: RetryPolicy, say: Say) -> Fetched:
    """Return the files of a request once the folder holds all of them. Raises `FetchFailed`."""
    try:
        source = parse(request.source)
        _refuse_unfit(source, request)
        prune(request, say)
        kept = manifests.complete(request)
        if kept and not _looks_again(source, request) and link.is_made(request, kept.files[0].name):
            return Fetched(kept)
        volume.prepare(request.folder)
        waiting = {"waiting": "another process fetches into this folder", "folder": str(request.folder)}
        async with exclusive(request.folder, lambda: say(waiting)) as locked:
            fetched = await _fetch_alone(_Fetch(source, request, settings, policy, say, locked))
            names = [file.name for file in fetched.choice.files]
            link.refuse_clash(request, source, names)
            link.make(request, names[0])
            return fetched
    except SpecInvalid as invalid:
        raise FetchFailed(Code.BAD_SOURCE, f"the source {invalid.wrong}", invalid.remedy) from invalid


class _Fetch(msgspec.Struct, frozen=True):
    """What the steps of one fetch share."""

    source: Source
    request: FetchRequest
    settings: FetchSettings
    retry: RetryPolicy
    say: Say
    locked: bool


def _refuse_unfit(source: Source, request: FetchRequest) -> None:
    if request.sha256 and not _SHA256.fullmatch(request.sha256):
        raise FetchFailed(Code.REFUSED, "the sha256 is not 64 hexadecimal digits", "correct it, or leave it out")
    if isinstance(source, Claim):
        remedy = "mount the claim, and name the file's path with --allow-root"
        raise FetchFailed(Code.REFUSED, "a claim can be mounted but not fetched", remedy)
    if (request.files or request.everything) and not is_collection(source):
        raise FetchFailed(Code.REFUSED, "the source names one file already", "leave out --file and --all")
    if request.files and request.everything:
        raise FetchFailed(Code.REFUSED, "--all leaves nothing to pick", "leave out --file or --all")
    link.refuse_bad_name(request)


def _looks_again(source: Source, request: FetchRequest) -> bool:
    """Whether the source is looked at although the folder is whole. A local file always: that costs next to nothing."""
    return request.refresh is Refresh.ON_CHANGE or isinstance(source, Local)


async def _fetch_alone(job: _Fetch) -> Fetched:
    try:
        tls = tls_context(job.request.ca)
        async with downloads(tls, job.retry) as client:
            for _ in range(_ROUNDS - 1):
                with suppress(Changed):
                    return Fetched(await _round(job, client, tls))
            return Fetched(await _round(job, client, tls))
    except FetchFailed as failure:
        # Read again: the round that failed may have replaced some of these files already.
        if (kept := manifests.complete(job.request)) is None:
            raise
        job.say({"kept": f"nothing newer could be fetched, so what is there is used: {failure.message}"})
        return Fetched(kept, failure.message)


async def _round(job: _Fetch, client: Downloads, tls: ssl.SSLContext) -> Choice:
    # Read again under the lock: the process that held it before us may have fetched the same files.
    kept = manifests.complete(job.request)
    if kept and not _looks_again(job.source, job.request):
        return kept
    # What is there can be served, so a source that does not answer is tried twice and not six times.
    policy = msgspec.structs.replace(job.retry, attempts=2) if kept else job.retry
    files = _checked(await retried(lambda: _look(job, client, tls), policy, lambda: 0), job.request)
    link.refuse_clash(job.request, job.source, [file.name for file in files])
    if kept and manifests.is_current(kept, files):
        return kept
    if not isinstance(job.source, Local):
        return await _bring(job, files, client.open)
    return (_touched(job.request, kept, files[0]) if kept else None) or await _bring(job, files, open_local)


def _touched(request: FetchRequest, kept: Choice, file: SourceFile) -> Choice | None:
    """Return the choice with the new version of a local file that was written with the same content; None: it differs.

    The manifest gets the new version, so that the next fetch need not read the whole file again.
    """
    (copy,) = kept.files
    if not is_copy(file, copy.size, copy.sha256):
        return None
    choice = msgspec.structs.replace(kept, files=(msgspec.structs.replace(copy, etag=file.etag),))
    manifests.write(request.folder, manifests.of_source(request).with_choice(choice, request))
    return choice


async def _look(job: _Fetch, client: Downloads, tls: ssl.SSLContext) -> tuple[SourceFile, ...]:
    """Ask the source which files there are. The libraries of a source are loaded only for that source."""
    match job.source:
        case Web():
            return (await client.describe(_known(SourceFile(job.source.name, job.source.url), job.request)),)
        case Hub():
            from modelyard.weights import hub  # noqa: PLC0415

            return await hub.files_of(job.source, job.request, job.settings, tls)
        case S3():
            return await _look_in_bucket(job, job.source, client)
        case Local():
            return (describe(job.source.path, job.request.allowed_roots),)
        case Claim():
            raise AssertionError("refused before")


async def _look_in_bucket(job: _Fetch, source: S3, client: Downloads) -> tuple[SourceFile, ...]:
    from modelyard.weights.s3 import Bucket  # noqa: PLC0415

    bucket = Bucket(source.bucket, job.settings, job.request.ca)
    if not source.key.endswith("/"):
        return (await client.describe(_known(bucket.one(source), job.request)),)
    found = {file.name: file for file in await bucket.below(source)}
    return tuple(found[name] for name in choose(found, job.request.files, everything=job.request.everything))


def _known(upstream: SourceFile, request: FetchRequest) -> SourceFile:
    wanted = request.sha256 or request.checksums.get(upstream.name, "")
    return msgspec.structs.replace(upstream, sha256=wanted) if wanted else upstream


def _checked(found: tuple[SourceFile, ...], request: FetchRequest) -> tuple[SourceFile, ...]:
    """Return the files with the hash of the request, or refuse what cannot be put into a folder."""
    for file in found:
        if is_ours(file.name):
            raise FetchFailed(Code.REFUSED, f"{file.name} is a name that we use ourselves", "choose another file")
    _refuse_absent(found, request)
    files = tuple(_vouched(_marked(file, request, served=file is found[0]), request) for file in found)
    if not request.sha256:
        return files
    if len(found) > 1:
        raise FetchFailed(Code.REFUSED, f"one sha256 cannot vouch for {len(found)} files", "leave out --sha256")
    if found[0].sha256 not in ("", request.sha256):
        message = f"upstream says that {found[0].name} has the sha256 {found[0].sha256}, not {request.sha256}"
        raise FetchFailed(Code.CHECKSUM, message, "check the hash, and that the source is what it should be")
    return (_known(files[0], request),)


def _refuse_absent(found: tuple[SourceFile, ...], request: FetchRequest) -> None:
    absent = sorted(request.checksums.keys() - {file.name for file in found})
    if absent:
        message = f"{absent[0]} has a checksum, but is not among the files that are fetched"
        raise FetchFailed(Code.REFUSED, message, "correct the name in --checksum, or leave it out")


def _vouched(file: SourceFile, request: FetchRequest) -> SourceFile:
    """Return a file with the hash of the request, which has to be that of the source if it tells one."""
    wanted = request.checksums.get(file.name, "")
    if not wanted:
        return file
    if file.sha256 not in ("", wanted):
        message = f"upstream says that {file.name} has the sha256 {file.sha256}, not {wanted}"
        raise FetchFailed(Code.CHECKSUM, message, "check the hash, and that the source is what it should be")
    return msgspec.structs.replace(file, sha256=wanted)


def _marked(file: SourceFile, request: FetchRequest, *, served: bool) -> SourceFile:
    return msgspec.structs.replace(file, gguf=request.must_be_gguf(file.name, served=served))


async def _bring(job: _Fetch, files: tuple[SourceFile, ...], open_: Open) -> Choice:
    folder = job.request.folder
    at_hand = manifests.at_hand(job.request, files)
    missing = [file for file in files if file.name not in at_hand]
    partials = [Partial(folder, file, locked=job.locked) for file in missing]
    try:
        if job.locked:
            sweep(folder, frozenset(partial.path for partial in partials))
            for file, partial in zip(missing, partials, strict=True):
                adopt(job.request, file, partial)
        there = sum(partial.present for partial in partials)
        volume.check_room(folder, max(0, sum(file.size or 0 for file in missing) - there))
        progress = Progress(files, job.say, time.monotonic)
        for kept in at_hand.values():
            progress.at(kept.name, kept.size)
        for file, partial in zip(missing, partials, strict=True):
            await stage(file, partial, open_, job.retry, progress)
        progress.line(files[-1].name)
        return _publish(job.request, files, partials, at_hand)
    finally:
        for partial in partials:
            partial.leave()


def _publish(
    request: FetchRequest, files: tuple[SourceFile, ...], partials: list[Partial], at_hand: dict[str, Kept]
) -> Choice:
    folder = request.folder
    before, ours = manifests.load(folder), manifests.of_source(request)
    with volume.explained(folder):
        # Without a manifest the folder counts as empty: it must not vouch for files that are being replaced.
        (folder / MANIFEST).unlink(missing_ok=True)
    volume.sync_folder(folder)
    there = at_hand | {kept.name: kept for kept in (partial.publish() for partial in partials)}
    choice = Choice(tuple(there[file.name] for file in files), request.files, request.everything)
    after = ours.with_choice(choice, request)
    manifests.write(folder, after)
    with volume.explained(folder):
        for name in (before.files.keys() if before else set()) - after.files.keys():
            (folder / name).unlink(missing_ok=True)
    return choice
