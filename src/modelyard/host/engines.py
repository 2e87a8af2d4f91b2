"""The engines of a host: which one serves a model, and its command line.

A file that `--engines` names replaces the program of an engine, or adds arguments behind ours:

    llamacpp:
      command: [/opt/llama.cpp/llama-server]
      args: [--flash-attn, "on"]

The counterpart on a cluster is `modelyard.engines`, which makes containers.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import yaml
from msgspec import Struct, structs

from modelyard.core.errors import ModelyardError
from modelyard.core.source import Hub, parse
from modelyard.engines.flags import flag
from modelyard.host.refusals import LoadFailed
from modelyard.host.wire import Code, EngineName, LoadRequest, Options

Words = tuple[str, ...]

HOST: Final = "127.0.0.1"
_OURS: Final = (sys.executable, "-P", "-m")
_ALL_LAYERS: Final = "99"


class EnginesInvalid(ModelyardError):
    """The file that `--engines` names is not one of engines."""


class Custom(Struct, frozen=True, forbid_unknown_fields=True):
    """What the user says about one engine."""

    command: Words = ()
    """The program and its first arguments; empty: the one that is found."""
    args: Words = ()
    """Arguments behind ours; of equal flags the last one counts."""


class Serving(Struct, frozen=True):
    """What a command line is made of."""

    model: str
    """The id under which clients know the model."""
    weights: Path
    """The file to serve, or the folder."""
    port: int
    options: Options = Options()
    gpu_share: float = 0.0
    """Which part of the memory of the GPUs it may take; 0: there are none."""


class Engine(Struct, frozen=True):
    """An inference server that runs as a child process."""

    name: EngineName
    finds: Callable[[], Words]
    """Returns the program and its first arguments; empty: it is not installed."""
    words: Callable[[Serving], Words]
    """Returns the arguments."""
    install: str
    """The remedy when it is missing."""
    options: frozenset[str] = frozenset()
    """The options that it can be told, as clients call them."""
    takes_folder: bool = True
    """Whether it serves a folder of files, and not one GGUF."""
    warms_up: bool = False
    """Whether it says that it is well before its model is loaded, so that only an answer proves that it is."""


def read_customs(file: Path | None) -> dict[EngineName, Custom]:
    """Return what a file says about engines, by name; None: nothing."""
    if file is None:
        return {}
    try:
        return msgspec.convert(yaml.safe_load(file.read_bytes()), dict[EngineName, Custom])
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise EnginesInvalid(f"{file} does not say how to start engines: {error}") from error


def engine_for(request: LoadRequest, *, is_apple: bool | None = None, has_gpu: bool = False) -> Engine:
    """Return the engine that serves a model: the one that is asked for, else one that fits weights and machine.

    A GGUF needs llama.cpp. Anything else is a folder of a format that MLX serves on Apple Silicon, and vLLM elsewhere.
    """
    if request.options.engine:
        return ENGINES[request.options.engine]
    if _is_gguf(request):
        return ENGINES["llamacpp"]
    apple = is_apple_silicon() if is_apple is None else is_apple
    return ENGINES["mlx"] if apple else ENGINES["vllm"] if has_gpu else ENGINES["llamacpp"]


def ignored_options(engine: Engine, options: Options) -> tuple[str, ...]:
    """Return the options that are asked for and that an engine cannot be told, as clients call them; sorted."""
    asked = msgspec.to_builtins(structs.replace(options, engine=None, file=""))
    return tuple(sorted(asked.keys() - engine.options))


def command(engine: Engine, serving: Serving, custom: Custom) -> Words:
    """Return the command line of an engine; `LoadFailed` when it is not installed."""
    program = custom.command or engine.finds()
    if not program:
        raise LoadFailed(Code.ENGINE_MISSING, f"{engine.name} is not on this host; {engine.install}", is_final=True)
    return (*program, *engine.words(serving), *custom.args)


def is_apple_silicon() -> bool:
    """Whether this machine has a GPU that MLX and Metal use."""
    return (sys.platform, platform.machine()) == ("darwin", "arm64")


def _is_gguf(request: LoadRequest) -> bool:
    source = parse(request.model)
    named = source.repo if isinstance(source, Hub) and not source.file else request.model
    return bool(request.options.file) or named.lower().endswith("gguf")


def _llamacpp() -> Words:
    if found := shutil.which("llama-server"):
        return (found,)
    return (*_OURS, "modelyard.local.llama_server") if importlib.util.find_spec("xllamacpp") else ()


def _mlx() -> Words:
    if found := shutil.which("mlx_lm.server"):
        return (found,)
    return (*_OURS, "mlx_lm.server") if importlib.util.find_spec("mlx_lm") else ()


def _vllm() -> Words:
    found = shutil.which("vllm")
    return (found, "serve") if found else ()


def _address(serving: Serving) -> Words:
    return ("--host", HOST, "--port", str(serving.port))


def _numbers(serving: Serving, context: str, parallel: str) -> Words:
    options = serving.options
    return (
        *((context, str(options.context_size)) if options.context_size and context else ()),
        *((parallel, str(options.parallel)) if options.parallel and parallel else ()),
    )


def _llamacpp_words(serving: Serving) -> Words:
    model = ("--model", str(serving.weights), "--alias", serving.model)
    layers = ("--n-gpu-layers", _ALL_LAYERS) if serving.gpu_share or is_apple_silicon() else ()
    numbers = _numbers(serving, "--ctx-size", "--parallel")
    return (*model, *_address(serving), "--metrics", *layers, *numbers, *_llamacpp_options(serving.options))


def _llamacpp_options(options: Options) -> Words:
    return (
        *flag("--flash-attn", "on" if options.flash_attention else None),
        *flag("--jinja", options.jinja),
        *flag("--cache-type-k", options.cache_type_k),
        *flag("--cache-type-v", options.cache_type_v),
        *flag("--batch-size", options.batch_size),
        *flag("--ubatch-size", options.u_batch_size),
        *flag("--reasoning-budget", options.reasoning_budget),
    )


def _mlx_words(serving: Serving) -> Words:
    # By the id, which is a link to the weights in its working directory: a request for any other name would make it
    # download that one.
    return ("--model", serving.model, *_address(serving))


def _vllm_words(serving: Serving) -> Words:
    share = ("--gpu-memory-utilization", f"{serving.gpu_share:.3f}") if serving.gpu_share else ()
    numbers = _numbers(serving, "--max-model-len", "--max-num-seqs")
    return (str(serving.weights), "--served-model-name", serving.model, *_address(serving), *share, *numbers)


ENGINES: Final[dict[EngineName, Engine]] = {
    "llamacpp": Engine(
        "llamacpp",
        _llamacpp,
        _llamacpp_words,
        "install llama.cpp so that llama-server is on the PATH, or pip install 'modelyard[local]'",
        frozenset(Options.__struct_encode_fields__),
        takes_folder=False,
    ),
    "mlx": Engine("mlx", _mlx, _mlx_words, "pip install mlx-lm", warms_up=True),
    "vllm": Engine(
        "vllm",
        _vllm,
        _vllm_words,
        "install vLLM so that vllm is on the PATH",
        frozenset({"contextSize", "parallel"}),
    ),
}
