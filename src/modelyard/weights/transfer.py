"""The transfer of one file, however often the connection breaks.

Every attempt goes on where the last one stopped. Attempts that bring nothing are counted, with a longer back-off each.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

from modelyard.core.backoff import doubled
from modelyard.core.exitcodes import Code
from modelyard.weights.failures import Changed, FetchFailed, Transient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from modelyard.weights.partial import Partial
    from modelyard.weights.progress import Progress
    from modelyard.weights.types import Open, RetryPolicy, SourceFile

T = TypeVar("T")


async def retried(attempt: Callable[[], Awaitable[T]], policy: RetryPolicy, gained: Callable[[], int]) -> T:
    """Return the result of the first attempt that succeeds. Whenever `gained` has grown, the count starts anew."""
    failures, furthest = 0, gained()
    while True:
        try:
            return await attempt()
        except Changed:
            raise
        except Transient as trouble:
            failures = 1 if gained() > furthest else failures + 1
            furthest = max(furthest, gained())
            if failures >= policy.attempts:
                raise
            await asyncio.sleep(_delay(failures, trouble.after, policy))


async def stage(upstream: SourceFile, partial: Partial, open_: Open, policy: RetryPolicy, progress: Progress) -> None:
    """Fetch one file into its partial file and verify it. What was fetched stays there if this fails on the way."""
    await partial.resume(lambda size: progress.at(upstream.name, size))
    try:
        if partial.size != upstream.size:
            await retried(lambda: _attempt(upstream, partial, open_, progress), policy, lambda: partial.size)
    except Changed:
        partial.discard()
        raise
    except FetchFailed as failure:
        if failure.code is Code.NO_SPACE:
            # Others use the volume too: better to fetch again than to leave it full.
            partial.discard()
        raise
    partial.finish()
    progress.at(upstream.name, partial.size)


async def _attempt(upstream: SourceFile, partial: Partial, open_: Open, progress: Progress) -> None:
    # Without a version, nothing says that the rest belongs to what is there.
    async with open_(upstream, partial.size if upstream.version else 0) as body:
        if body.offset != partial.size:
            partial.restart()
        async for chunk in body.chunks:
            if body.size is not None and partial.size + len(chunk) > body.size:
                # Before it is written: a server that sends without end must not fill the volume.
                raise Changed(f"{upstream.name} goes on after its {body.size} bytes")
            partial.write(chunk)
            progress.at(upstream.name, partial.size, fetched=len(chunk))
        if body.size is not None and partial.size < body.size:
            raise Transient(f"{upstream.name} ended at {partial.size} bytes of {body.size} bytes")


def _delay(failures: int, asked: float, policy: RetryPolicy) -> float:
    # No need for a good generator: it only keeps many pods from asking in step.
    backoff = doubled(failures, policy.first_delay, policy.longest_delay) * random.uniform(0.5, 1.5)  # noqa: S311
    return min(max(backoff, asked), policy.longest_delay)
