"""The types that all steps of a fetch share: the request, and the files of its source."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from pathlib import Path

import msgspec

from modelyard.core.source import cache_key, redacted
from modelyard.weights.gguf import SUFFIX


class Refresh(StrEnum):
    """When to fetch again what is there already, as imagePullPolicy says it for images."""

    IF_NOT_PRESENT = "if-not-present"
    ON_CHANGE = "on-change"


class FetchRequest(msgspec.Struct, frozen=True):
    """The arguments of one call of `modelyard fetch`."""

    source: str
    folder: Path
    files: tuple[str, ...] = ()
    everything: bool = False
    link: str = ""
    sha256: str = ""
    checksums: Mapping[str, str] = {}
    """What single files must hash to, by name."""
    refresh: Refresh = Refresh.IF_NOT_PRESENT
    verify: bool = False
    ca: Path | None = None
    allowed_roots: tuple[Path, ...] = ()
    prune_except: tuple[str, ...] = ()
    """Folders beside this one that are kept when others are removed; empty: nothing is removed."""

    @property
    def cache_key(self) -> str:
        """A name for the source that is the same for every spelling of it."""
        return cache_key(self.source)

    def must_be_gguf(self, name: str, *, served: bool) -> bool:
        """Whether a file has to be a GGUF: it is called one, or it is the one that is served under such a name."""
        return name.lower().endswith(SUFFIX) or (served and self.link.endswith(SUFFIX))

    @property
    def shown(self) -> str:
        """The source without the secrets that it may hold."""
        return redacted(self.source)


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often and how long to retry. An attempt that brought new bytes does not count."""

    attempts: int = 6
    first_delay: float = 1.0
    longest_delay: float = 60.0
    connect_seconds: float = 15.0
    idle_seconds: float = 60.0


class SourceFile(msgspec.Struct, frozen=True):
    """One file as its source describes it. `url` may hold a signature: it is never shown."""

    name: str
    url: str
    size: int | None = None
    sha256: str = ""
    etag: str = ""  # whatever changes when the content does
    validator: str = ""  # the ETag that every answer for `url` must carry
    headers: Mapping[str, str] = {}
    gguf: bool = False
    """Whether it has to be a GGUF."""

    @property
    def version(self) -> str:
        """A short name for exactly this content; empty: the source gives nothing to tell versions apart by."""
        # A weak ETag stands for the same meaning, not for the same bytes.
        known = self.sha256 or ("" if self.etag.startswith("W/") else self.etag)
        return hashlib.sha256(f"{known} {self.size}".encode()).hexdigest()[:12] if known else ""


class Body(msgspec.Struct, frozen=True):
    """The bytes of a file from an offset on. The offset is 0 when the server does not serve ranges."""

    offset: int
    size: int | None
    chunks: AsyncIterator[bytes]


Open = Callable[[SourceFile, int], AbstractAsyncContextManager[Body]]
"""Opens a file of the source at an offset."""
