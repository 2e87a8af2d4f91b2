"""`modelyard fetch`: bring weights into a folder, whole or not at all.

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
from modelyard.core.source import S3, Claim, Hub, Local, Source, Web, parse
from modelyard.weights import manifest as manifests
from modelyard.weights import volume
from modelyard.weights.codes import Changed, Code, FetchFailed, Transient
from modelyard.weights.http import downloads
from modelyard.weights.local import describe, open_local
from modelyard.weights.lock import LOCK, exclusive
from modelyard.weights.manifest import Manifest
from modelyard.weights.partial import SUFFIX, Partial, sweep
from modelyard.weights.progress import Progress, Say
from modelyard.weights.surroundings import Surroundings, trust
from modelyard.weights.transfer import persist, stage
from modelyard.weights.values import Order, Patience, Refresh, Upstream

if TYPE_CHECKING:
    import ssl

    from modelyard.weights.http import Downloads
    from modelyard.weights.values import Open

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_ROUNDS: Final = 3
"""How often upstream may change under our hands."""


async def fetch(order: Order, surroundings: Surroundings, patience: Patience, say: Say) -> Manifest:
    """Return what the folder holds once it holds what was ordered. Raises `FetchFailed`."""
    try:
        source = parse(order.source)
        _refuse_unfit(source, order)
        kept = manifests.complete(order)
        if kept and order.refresh is Refresh.IF_NOT_PRESENT:
            return kept
        volume.prepare(order.folder)
        waiting = {"waiting": "another process fetches into this folder", "folder": str(order.folder)}
        async with exclusive(order.folder, lambda: say(waiting)) as locked:
            return await _fetch_alone(_Fetch(source, order, surroundings, patience, say, locked))
    except SpecInvalid as invalid:
        raise FetchFailed(Code.BAD_SOURCE, f"the source {invalid.wrong}", invalid.remedy) from invalid


class _Fetch(msgspec.Struct, frozen=True):
    """What the steps of one fetch share."""

    source: Source
    order: Order
    surroundings: Surroundings
    patience: Patience
    say: Say
    locked: bool


def _refuse_unfit(source: Source, order: Order) -> None:
    if order.sha256 and not _SHA256.fullmatch(order.sha256):
        raise FetchFailed(Code.REFUSED, "the sha256 is not 64 hexadecimal digits", "correct it, or leave it out")
    if isinstance(source, Claim):
        remedy = "mount the claim, and name the file's path with --allow-root"
        raise FetchFailed(Code.REFUSED, "a claim can be mounted but not fetched", remedy)
    names_many = (isinstance(source, Hub) and not source.file) or (isinstance(source, S3) and source.key.endswith("/"))
    if order.files and not names_many:
        raise FetchFailed(Code.REFUSED, "the source names one file already", "leave out --file")


async def _fetch_alone(job: _Fetch) -> Manifest:
    tls = trust(job.order.ca)
    async with downloads(tls, job.patience) as client:
        for _ in range(_ROUNDS - 1):
            with suppress(Changed):
                return await _round(job, client, tls)
        return await _round(job, client, tls)


async def _round(job: _Fetch, client: Downloads, tls: ssl.SSLContext) -> Manifest:
    # Whoever held the lock before us may have done the work.
    kept = manifests.complete(job.order)
    if kept and job.order.refresh is Refresh.IF_NOT_PRESENT:
        return kept
    # What is there will do for now, so upstream gets one more chance and not six.
    patience = msgspec.structs.replace(job.patience, attempts=2) if kept else job.patience
    try:
        files = _checked(await persist(lambda: _look(job, client, tls), patience, lambda: 0), job.order)
        if kept and manifests.is_current(kept, files):
            return kept
        return await _bring(job, files, open_local if isinstance(job.source, Local) else client.open)
    except Transient as trouble:
        if kept is None or isinstance(trouble, Changed):
            raise
        job.say({"kept": f"upstream fails, so what is there is used: {trouble.message}"})
        return kept


async def _look(job: _Fetch, client: Downloads, tls: ssl.SSLContext) -> tuple[Upstream, ...]:
    """Ask upstream which files there are. The libraries of a source are loaded only for that source."""
    match job.source:
        case Web():
            return (await client.probe(_known(Upstream(job.source.name, job.source.url), job.order)),)
        case Hub():
            from modelyard.weights import hub  # noqa: PLC0415

            return await hub.files_of(job.source, job.order.files, job.surroundings, tls)
        case S3():
            return await _look_in_bucket(job, job.source, client)
        case Local():
            return (describe(job.source.path, job.order.allowed_roots),)
        case Claim():
            raise AssertionError("refused before")


async def _look_in_bucket(job: _Fetch, source: S3, client: Downloads) -> tuple[Upstream, ...]:
    from modelyard.weights.s3 import Bucket  # noqa: PLC0415

    bucket = Bucket(source.bucket, job.surroundings, job.order.ca)
    if not source.key.endswith("/"):
        return (await client.probe(_known(bucket.one(source), job.order)),)
    found = {file.name: file for file in await bucket.below(source)}
    if missing := [name for name in job.order.files if name not in found]:
        remedy = "check the names; they are relative to the prefix"
        raise FetchFailed(Code.NOT_FOUND, f"the prefix holds no {', '.join(missing)}", remedy)
    return tuple(found[name] for name in job.order.files or found)


def _known(upstream: Upstream, order: Order) -> Upstream:
    return msgspec.structs.replace(upstream, sha256=order.sha256) if order.sha256 else upstream


def _checked(found: tuple[Upstream, ...], order: Order) -> tuple[Upstream, ...]:
    """Return the files with the hash that was ordered, or refuse what cannot be put into a folder."""
    for file in found:
        if file.name in (manifests.NAME, LOCK) or file.name.endswith(SUFFIX):
            raise FetchFailed(Code.REFUSED, f"{file.name} is a name that we use ourselves", "choose another file")
    if not order.sha256:
        return found
    if len(found) > 1:
        raise FetchFailed(Code.REFUSED, f"one sha256 cannot vouch for {len(found)} files", "leave out --sha256")
    if found[0].sha256 not in ("", order.sha256):
        message = f"upstream says that {found[0].name} has the sha256 {found[0].sha256}, not {order.sha256}"
        raise FetchFailed(Code.CHECKSUM, message, "check the hash, and that the source is what it should be")
    return (_known(found[0], order),)


async def _bring(job: _Fetch, files: tuple[Upstream, ...], open_: Open) -> Manifest:
    folder = job.order.folder
    partials = [Partial(folder, file, locked=job.locked) for file in files]
    try:
        if job.locked:
            sweep(folder, frozenset(partial.path for partial in partials))
        there = sum(partial.present for partial in partials)
        volume.check_room(folder, max(0, sum(file.size or 0 for file in files) - there))
        progress = Progress(files, job.say, time.monotonic)
        for file, partial in zip(files, partials, strict=True):
            await stage(file, partial, open_, job.patience, progress)
        progress.line(files[-1].name)
        return _publish(job.order, partials)
    finally:
        for partial in partials:
            partial.leave()


def _publish(order: Order, partials: list[Partial]) -> Manifest:
    folder = order.folder
    before = manifests.load(folder)
    with volume.explained(folder):
        # Without a manifest the folder counts as empty: it must not vouch for files that are being replaced.
        (folder / manifests.NAME).unlink(missing_ok=True)
    volume.sync_folder(folder)
    files = tuple(partial.publish() for partial in partials)
    after = Manifest(order.shown, order.cache_key, files, order.files)
    manifests.write(folder, after)
    with volume.explained(folder):
        for name in (before.names if before else frozenset()) - after.names:
            (folder / name).unlink(missing_ok=True)
    return after
