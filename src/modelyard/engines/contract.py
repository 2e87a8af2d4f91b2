"""The contract of engines: an inference server program, and the arguments by which it is told what to serve.

Pure, and neutral: engines know nothing of kinds. A kind hands over the fields of its spec that the engine's `options`
name (`msgspec.convert(spec, engine.options, from_attributes=True)`), so `options` is also the list of what the engine
honours: everything else that a user sets for an engine alone is reported, not ignored in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from modelyard.core.conditions import Problem

Json = dict[str, Any]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""A number that users write; 0 means the same as leaving it out."""


class Loads(StrEnum):
    """How an engine gets its weights."""

    FILE = "file"
    """From one file (or the parts of a split one) on a volume."""
    FOLDER = "folder"
    """From a folder on a volume, a file, or the hub by itself."""
    ITSELF = "itself"
    """From the hub by itself, or from a folder of a volume."""
    NOTHING = "nothing"
    """Weights are no business of ours: they are in the image, or the user's command knows."""


class Gpus(Struct, frozen=True):
    """The accelerators that one pod has, and how a model is spread over them."""

    count: int = 0
    vendor: str = "nvidia"
    layers: int = 0
    """How many layers go to them; 0 or less: all."""
    strategy: str = "layer"
    layer_split: tuple[str, ...] = ()


class Place(Struct, frozen=True):
    """What a kind has resolved for an engine: its weights, its port and its GPUs."""

    model: str
    """A path, or an id that the engine resolves by itself. Empty: it knows already."""
    port: int
    revision: str = ""
    """Of an id: which version of the repository; empty: its main one."""
    url: str = ""
    """For an engine that downloads by itself: where the one file is, of the web or of the repository."""
    gpus: Gpus = Gpus()
    draft: str = ""
    """The path or id of the draft model, for speculative decoding."""
    draft_revision: str = ""
    """Of a draft model that is an id: which version of the repository; empty: its main one."""
    names: tuple[str, ...] = ()
    """What else clients may call the model, for an engine with a `names_flag`."""
    default_image: bool = True
    """Whether the engine's own image runs, whose flags are known; False: an image that the user chose."""


class Launch(Struct, frozen=True):
    """The container of an engine: its arguments, command and environment, and what could not be honoured."""

    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[Json, ...] = ()
    warnings: tuple[Problem, ...] = ()
    """What was asked for and cannot be done, without keeping the engine from serving."""
    finishes: int = 0
    """For how many seconds after SIGTERM it goes on with answers that are under way; 0: it cuts them off."""


class Measures(Struct, frozen=True):
    """The Prometheus metrics in which an engine tells how busy and how fast it is; empty: it does not tell."""

    tokens: str = ""
    """The counter of generated tokens, as its samples are called."""
    delay: str = ""
    """The histogram of the seconds until the first token of an answer."""
    running: str = ""
    """The gauge of requests in progress."""
    waiting: str = ""
    """The gauge of requests that wait for their turn."""
    kv_cache: tuple[str, ...] = ()
    """The gauges of the part of the KV cache that is in use, 0 to 1. Versions differ in the name: each has one."""


class Engine(Struct, frozen=True):
    """One inference server program."""

    name: str
    container: str
    port: int
    loads: Loads
    options: type[Struct]
    """The fields of a spec that the engine honours."""
    launch: Callable[[Any, Place], Launch]
    image: Callable[[Gpus], str]
    """The default image; empty when the user has to name one."""
    health: str = ""
    """The path of its HTTP probes; empty: probes only open the port."""
    names_flag: str = ""
    """The flag that tells it by which names its model may be called; empty: it takes any."""
    metric: str = ""
    """The Prometheus metric to scale by; empty: it has none."""
    measures: Measures = Measures()
    """Its metrics, by what they tell."""
    user: int | None = None
    """The numeric user to run the default image as; None: the image's own, which must not be root."""
    folders: tuple[str, ...] = ()
    """Folders it writes to besides its home."""
    service_links: bool = True
    """Whether it tolerates `enableServiceLinks`: the environment variables that Kubernetes adds for each Service."""
    shared_memory: bool = False
    """Whether it runs one process for each GPU, which talk to each other through /dev/shm."""

    @property
    def gauges(self) -> tuple[str, ...]:
        """The Prometheus gauges that are all 0 while no request runs or waits; empty: it has none."""
        return tuple(filter(None, (self.measures.running, self.measures.waiting)))
