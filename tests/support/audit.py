"""What the audit log of the API server tells. It is a moment behind, and its last line may be written only in part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Json = dict[str, Any]


def audited(log: Path, word: str = "") -> Iterator[Json]:
    """Yield the entries that hold a word, in order. To look at every line of a long log would take a while."""
    whole, _, _ = log.read_bytes().rpartition(b"\n")
    end, wanted = 0, word.encode()
    while end < len(whole) and (found := whole.find(wanted, end)) >= 0:
        start = whole.rfind(b"\n", 0, found) + 1
        end = whole.find(b"\n", found) + 1 or len(whole)
        yield msgspec.json.decode(whole[start:end])


def answered(log: Path, user: str, namespace: str) -> Iterator[Json]:
    """Yield what a user wrote in a namespace, once for each request."""
    for entry in audited(log, namespace):
        in_place = entry.get("objectRef", {}).get("namespace") == namespace
        if in_place and entry["user"]["username"] == user and entry["stage"] == "ResponseComplete":
            yield entry
