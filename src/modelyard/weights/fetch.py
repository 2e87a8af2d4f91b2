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
from modelyard.core.exitcodes import Code
from modelyard.core.source import S3, Claim, Hub, Local, Source, Web, is_collection, parse
from modelyard.weights import leftover, link, volume
from modelyard.weights import manifest as manifests
from modelyard.weights.choose import choose
from modelyard.weights.failures import Changed, FetchFailed
from modelyard.weights.http import downloads
from modelyard.weights.local import describe, open_local
from modelyard.weights.lock import exclusive
from modelyard.weights.manifest import Choice, Kept
from modelyard.weights.names import MANIFEST, is_ours
from modelyard.weights.partial import Partial, sweep
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


async def fetch(order: Order, surroundings: Surroundings, patience: Patience, say: Say) -> Choice:
    """Return the files that were ordered once the folder holds them. Raises `FetchFailed`."""
    try:
        source = parse(order.source)
        _refuse_unfit(source, order)
        kept = manifests.complete(order)
        if kept and order.refresh is Refresh.IF_NOT_PRESENT and link.is_made(order, kept.files[0].name):
            return kept
        volume.prepare(order.folder)
        waiting = {"waiting": "another process fetches into this folder", "folder": str(order.folder)}
        async with exclusive(order.folder, lambda: say(waiting)) as locked:
            choice = await _fetch_alone(_Fetch(source, order, surroundings, patience, say, locked))
            link.refuse_clash(order, source, [file.name for file in choice.files])
            link.make(order, choice.files[0].name)
            return choice
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
    if (order.files or order.everything) and not is_collection(source):
        raise FetchFailed(Code.REFUSED, "the source names one file already", "leave out --file and --all")
    if order.files and order.everything:
        raise FetchFailed(Code.REFUSED, "--all leaves nothing to pick", "leave out --file or --all")
    link.refuse_bad_name(order)


async def _fetch_alone(job: _Fetch) -> Choice:
    try:
        tls = trust(job.order.ca)
        async with downloads(tls, job.patience) as client:
            for _ in range(_ROUNDS - 1):
                with suppress(Changed):
                    return await _round(job, client, tls)
            return await _round(job, client, tls)
    except FetchFailed as failure:
        # Looked at again: what failed may have been on its way to replace some of it.
        if (kept := manifests.complete(job.order)) is None:
            raise
        job.say({"kept": f"nothing newer could be fetched, so what is there is used: {failure.message}"})
        return kept


async def _round(job: _Fetch, client: Downloads, tls: ssl.SSLContext) -> Choice:
    # Whoever held the lock before us may have done the work.
    kept = manifests.complete(job.order)
    if kept and job.order.refresh is Refresh.IF_NOT_PRESENT:
        return kept
    # What is there will do for now, so upstream gets one more chance and not six.
    patience = msgspec.structs.replace(job.patience, attempts=2) if kept else job.patience
    files = _checked(await persist(lambda: _look(job, client, tls), patience, lambda: 0), job.order)
    link.refuse_clash(job.order, job.source, [file.name for file in files])
    if kept and manifests.is_current(kept, files):
        return kept
    return await _bring(job, files, open_local if isinstance(job.source, Local) else client.open)


async def _look(job: _Fetch, client: Downloads, tls: ssl.SSLContext) -> tuple[Upstream, ...]:
    """Ask upstream which files there are. The libraries of a source are loaded only for that source."""
    match job.source:
        case Web():
            return (await client.probe(_known(Upstream(job.source.name, job.source.url), job.order)),)
        case Hub():
            from modelyard.weights import hub  # noqa: PLC0415

            return await hub.files_of(job.source, job.order, job.surroundings, tls)
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
    return tuple(found[name] for name in choose(found, job.order.files, everything=job.order.everything))


def _known(upstream: Upstream, order: Order) -> Upstream:
    return msgspec.structs.replace(upstream, sha256=order.sha256) if order.sha256 else upstream


def _checked(found: tuple[Upstream, ...], order: Order) -> tuple[Upstream, ...]:
    """Return the files with the hash that was ordered, or refuse what cannot be put into a folder."""
    for file in found:
        if is_ours(file.name):
            raise FetchFailed(Code.REFUSED, f"{file.name} is a name that we use ourselves", "choose another file")
    if not order.sha256:
        return found
    if len(found) > 1:
        raise FetchFailed(Code.REFUSED, f"one sha256 cannot vouch for {len(found)} files", "leave out --sha256")
    if found[0].sha256 not in ("", order.sha256):
        message = f"upstream says that {found[0].name} has the sha256 {found[0].sha256}, not {order.sha256}"
        raise FetchFailed(Code.CHECKSUM, message, "check the hash, and that the source is what it should be")
    return (_known(found[0], order),)


async def _bring(job: _Fetch, files: tuple[Upstream, ...], open_: Open) -> Choice:
    folder = job.order.folder
    at_hand = manifests.at_hand(job.order, files)
    missing = [file for file in files if file.name not in at_hand]
    partials = [Partial(folder, file, locked=job.locked) for file in missing]
    try:
        if job.locked:
            sweep(folder, frozenset(partial.path for partial in partials))
            for file, partial in zip(missing, partials, strict=True):
                leftover.adopt(job.order, file, partial)
        there = sum(partial.present for partial in partials)
        volume.check_room(folder, max(0, sum(file.size or 0 for file in missing) - there))
        progress = Progress(files, job.say, time.monotonic)
        for kept in at_hand.values():
            progress.at(kept.name, kept.size)
        for file, partial in zip(missing, partials, strict=True):
            await stage(file, partial, open_, job.patience, progress)
        progress.line(files[-1].name)
        return _publish(job.order, files, partials, at_hand)
    finally:
        for partial in partials:
            partial.leave()


def _publish(order: Order, files: tuple[Upstream, ...], partials: list[Partial], at_hand: dict[str, Kept]) -> Choice:
    folder = order.folder
    before, ours = manifests.load(folder), manifests.of_source(order)
    with volume.explained(folder):
        # Without a manifest the folder counts as empty: it must not vouch for files that are being replaced.
        (folder / MANIFEST).unlink(missing_ok=True)
    volume.sync_folder(folder)
    there = at_hand | {kept.name: kept for kept in (partial.publish() for partial in partials)}
    choice = Choice(tuple(there[file.name] for file in files), order.files, order.everything)
    after = ours.with_choice(choice, order)
    manifests.write(folder, after)
    with volume.explained(folder):
        for name in (before.files.keys() if before else set()) - after.files.keys():
            (folder / name).unlink(missing_ok=True)
    return choice
