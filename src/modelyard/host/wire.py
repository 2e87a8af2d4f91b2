"""The bodies of `/admin/models`: what the daemon takes and answers. The operator reads the same shapes in `net/`.

The contract is on the page docs/guides/host.md. Fields may be added; none changes its meaning.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from modelyard.core.hosts import CacheType

Priority = Literal["critical", "high", "normal", "low", "batch"]
PRIORITIES: Final[tuple[Priority, ...]] = ("batch", "low", "normal", "high", "critical")
"""From what is evicted first to what is evicted last."""

EngineName = Literal["llamacpp", "mlx", "vllm"]

Id = Annotated[str, Meta(min_length=1, max_length=2048)]


class State(StrEnum):
    """The states of a model on a host."""

    DOWNLOADING = "downloading"
    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"
    FAILED = "failed"


class Code(StrEnum):
    """The `code` of an error: what programs go by."""

    BAD_REQUEST = "BadRequest"
    UNAUTHORIZED = "Unauthorized"
    NETWORK_NOT_ALLOWED = "NetworkNotAllowed"
    NOT_FOUND = "NotFound"
    DIFFERENT = "Different"
    BUSY = "Busy"
    TOO_LARGE = "TooLarge"
    DRAINING = "Draining"
    NOT_READY = "NotReady"
    MODEL_NOT_FOUND = "model_not_found"
    INTERNAL = "InternalError"
    BAD_SOURCE = "BadSource"
    AUTH_REQUIRED = "AuthRequired"
    CHECKSUM_MISMATCH = "ChecksumMismatch"
    NO_SPACE = "NoSpace"
    REFUSED = "Refused"
    DOWNLOAD_FAILED = "DownloadFailed"
    INSUFFICIENT_MEMORY = "InsufficientMemory"
    ENGINE_MISSING = "EngineMissing"
    ENGINE_FAILED = "EngineFailed"
    LOAD_TIMEOUT = "LoadTimeout"
    EVICTED = "Evicted"


class Problem(Struct, frozen=True):
    """An error as clients get it: a code for programs, and what is wrong and what to do for people."""

    code: Code
    message: str


class ErrorBody(Struct, frozen=True):
    """The body of every answer that is an error."""

    error: Problem


class Options(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """How a model is served. An unknown option is refused: a server without it is not the one that was asked for."""

    engine: EngineName | None = None
    """None: the one that fits the weights and the machine."""
    context_size: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    """The tokens of context of all slots together; None: what the engine takes by itself."""
    parallel: Annotated[int, Meta(ge=1, le=1024)] | None = None
    """How many requests are served at the same time; None: what the engine takes by itself."""
    file: Annotated[str, Meta(max_length=512)] = ""
    """The GGUF to serve, of a source that holds several."""
    # Numbers, switches and words of a list, and nothing else: a client must not reach files or programs of the host.
    flash_attention: bool = False
    jinja: bool = False
    cache_type_k: CacheType | None = None
    cache_type_v: CacheType | None = None
    batch_size: Annotated[int, Meta(ge=1, le=16384)] | None = None
    u_batch_size: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    reasoning_budget: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class LoadRequest(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The body of `POST /admin/models`: what a host is asked to serve."""

    model: Id
    revision: Annotated[str, Meta(max_length=255)] = ""
    options: Options = Options()
    owner: Annotated[str, Meta(max_length=253)] = ""
    """A name that the client gives itself; it is kept and told, and means nothing to the daemon."""
    memory: Annotated[int, Meta(ge=0, le=2**60)] | Annotated[str, Meta(max_length=32)] = 0
    """Bytes, or a quantity such as `4Gi`; 0: it is worked out from the size of the weights."""
    priority: Priority = "normal"
    eviction_protection: bool = False
    aliases: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=512)], ...], Meta(max_length=64)] = ()
    """More names by which clients may call the model; a repeated request adds to them."""


class Progress(Struct, frozen=True):
    """How many bytes of a download are here."""

    done: int
    total: int
    """0: not known yet."""


class Entry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One model of the list: what it was asked to be, and how far it is."""

    id: str
    state: State
    memory_bytes: int
    engine: str
    priority: str
    eviction_protection: bool
    restarts: int
    in_flight: int
    progress: Progress | None = None
    error: Problem | None = None
    loaded_at: str = ""
    owner: str = ""
    revision: str = ""
    ignored_options: tuple[str, ...] = ()
    """Options of the request that its engine does not have; sorted."""


class HostEntry(Struct, frozen=True, rename="camel"):
    """The machine: its budget of memory for models, and what is left of it."""

    memory_total_bytes: int
    memory_free_bytes: int
    version: str
    memory_pressure: str


class ModelList(Struct, frozen=True):
    """The body of `GET /admin/models`."""

    models: tuple[Entry, ...]
    host: HostEntry
