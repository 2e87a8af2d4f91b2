"""The stand-in for `llama-server` of llama.cpp: its command line, served by the library xllamacpp.

    python -m modelyard.local.llama_server --model FILE --host 127.0.0.1 --port 8080 --ctx-size 4096 --metrics

The node runs it for images of llama.cpp on a machine without `llama-server`. The library has parameters and no command
line, so each flag is an entry of a table: those that our llamacpp engine writes, and a few that users add. Any other
flag is refused: a server without it would not be the one that was asked for.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any, Final, NoReturn

import xllamacpp as llama  # type: ignore[import-untyped]  # the wheel ships no types

from modelyard.core.errors import ModelyardError
from modelyard.local.program import LIFELINE

Params = Any
"""`llama.CommonParams`."""

Put = Callable[[Params, str], None]
"""Puts the value of a flag into the parameters; ValueError when it is not a value of that flag."""

_CACHE_TYPES: Final = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_EXPERTS: Final = r"ffn_(gate_up|gate|up|down)_(ch)?exps"
"""How the names of the tensors of a mixture of experts end."""


class Refused(ModelyardError):
    """The command line asks for something that this server does not have."""


def _at(path: str, convert: Callable[[str], Any]) -> Put:
    *owners, name = path.split(".")

    def put(params: Params, value: str) -> None:
        setattr(reduce(getattr, owners, params), name, convert(value))

    return put


def _one_of(values: Iterable[str], family: Any, prefix: str) -> Callable[[str], Any]:
    choices = {value: family[f"{prefix}_{value.upper()}"] for value in values}
    return lambda value: _chosen(choices, value)


def _chosen(choices: dict[str, Any], value: str) -> Any:
    if value not in choices:
        raise ValueError(f"choose one of {', '.join(choices)}")
    return choices[value]


def _split_tensors(params: Params, value: str) -> None:
    shares = [float(share) for share in value.split(",")]
    params.tensor_split = shares + [0.0] * (len(params.tensor_split) - len(shares))


def _override_tensors(params: Params, value: str) -> None:
    params.tensor_buft_overrides = ",".join(filter(None, (params.tensor_buft_overrides, value)))


def _keep_experts(params: Params, value: str) -> None:
    for layer in range(int(value)):
        _override_tensors(params, rf"blk\.{layer}\.{_EXPERTS}=CPU")


def _template_values(value: str) -> dict[str, str]:
    """Return what a chat template is given: each value as JSON, which is how the library wants it."""
    values = json.loads(value)
    if not isinstance(values, dict):
        raise ValueError("write a JSON object")
    return {name: json.dumps(each) for name, each in values.items()}


def _rerank(params: Params) -> None:
    params.embedding = True
    params.pooling_type = llama.llama_pooling_type.LLAMA_POOLING_TYPE_RANK


_FLASH: Final = {
    "on": llama.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": llama.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED,
    "auto": llama.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_AUTO,
}
_cache_type = _one_of(_CACHE_TYPES, llama.ggml_type, "GGML_TYPE")
_pooling = _one_of(("none", "mean", "cls", "last", "rank"), llama.llama_pooling_type, "LLAMA_POOLING_TYPE")
_rope = _one_of(("none", "linear", "yarn"), llama.llama_rope_scaling_type, "LLAMA_ROPE_SCALING_TYPE")
_split = _one_of(("none", "layer", "row"), llama.llama_split_mode, "LLAMA_SPLIT_MODE")

VALUES: Final[dict[str, Put]] = {
    "--model": _at("model.path", str),
    "--host": _at("hostnames", lambda value: [value]),
    "--port": _at("port", int),
    "--n-gpu-layers": _at("n_gpu_layers", int),
    "--split-mode": _at("split_mode", _split),
    "--tensor-split": _split_tensors,
    "--ctx-size": _at("n_ctx", int),
    "--rope-scaling": _at("rope_scaling_type", _rope),
    "--rope-scale": _at("rope_freq_scale", lambda value: 1.0 / float(value)),
    "--yarn-orig-ctx": _at("yarn_orig_ctx", int),
    "--parallel": _at("n_parallel", int),
    "--flash-attn": _at("flash_attn_type", lambda value: _chosen(_FLASH, value)),
    "--cache-type-k": _at("cache_type_k", _cache_type),
    "--cache-type-v": _at("cache_type_v", _cache_type),
    "--n-cpu-moe": _keep_experts,
    "--override-tensor": _override_tensors,
    "--batch-size": _at("n_batch", int),
    "--ubatch-size": _at("n_ubatch", int),
    "--reasoning-budget": _at("sampling.reasoning_budget_tokens", int),
    "--reasoning-budget-message": _at("sampling.reasoning_budget_message", str),
    "--alias": _at("model_alias", lambda value: set(value.split(","))),
    "--api-key": _at("api_keys", lambda value: value.split(",")),
    "--chat-template-kwargs": _at("default_template_kwargs", _template_values),
    "--seed": _at("sampling.seed", int),
    "--temp": _at("sampling.temp", float),
    "--threads": _at("cpuparams.n_threads", int),
    "--pooling": _at("pooling_type", _pooling),
    "--cache-ram": _at("cache_ram_mib", int),
}
"""The flags that are followed by a value."""

SWITCHES: Final[dict[str, Callable[[Params], None]]] = {
    "--jinja": lambda params: setattr(params, "use_jinja", True),
    "--cpu-moe": lambda params: _override_tensors(params, rf"\.{_EXPERTS}=CPU"),
    "--no-kv-offload": lambda params: setattr(params, "no_kv_offload", True),
    "--no-warmup": lambda params: setattr(params, "warmup", False),
    "--metrics": lambda params: setattr(params, "endpoint_metrics", True),
    "--slots": lambda params: setattr(params, "endpoint_slots", True),
    "--no-slots": lambda params: setattr(params, "endpoint_slots", False),
    "--no-webui": lambda params: setattr(params, "ui", False),
    "--embedding": lambda params: setattr(params, "embedding", True),
    "--reranking": _rerank,
}
"""The flags that stand alone."""

SPELLINGS: Final = {
    "-a": "--alias",
    "-b": "--batch-size",
    "-c": "--ctx-size",
    "-cmoe": "--cpu-moe",
    "-cram": "--cache-ram",
    "-ctk": "--cache-type-k",
    "-ctv": "--cache-type-v",
    "-fa": "--flash-attn",
    "-m": "--model",
    "-ncmoe": "--n-cpu-moe",
    "-ngl": "--n-gpu-layers",
    "-nkvo": "--no-kv-offload",
    "-np": "--parallel",
    "-ot": "--override-tensor",
    "-s": "--seed",
    "-sm": "--split-mode",
    "-t": "--threads",
    "-ts": "--tensor-split",
    "-ub": "--ubatch-size",
    "--embeddings": "--embedding",
    "--gpu-layers": "--n-gpu-layers",
    "--rerank": "--reranking",
    "--temperature": "--temp",
}
"""Other spellings of the flags, which llama-server takes as well."""


def parameters(argv: Iterable[str]) -> Params:
    """Return the parameters of the library for a command line; `Refused` for an unknown flag. The last flag wins.

    Without `--alias`, clients see the model under the name of its file, which is the name of the Model.
    """
    params = llama.CommonParams()
    words = iter(argv)
    for word in words:
        flag = SPELLINGS.get(word, word)
        if flag in SWITCHES:
            SWITCHES[flag](params)
        else:
            _take(params, flag, words)
    if not params.model_alias and params.model.path:
        params.model_alias = {Path(params.model.path).stem}
    return params


def _take(params: Params, flag: str, words: Iterator[str]) -> None:
    if flag not in VALUES:
        raise Refused(f"{flag} is not supported on this machine; leave it out, or serve in a container")
    value = next(words, None)
    if value is None:
        raise Refused(f"{flag} lacks its value; write it behind the flag")
    try:
        VALUES[flag](params, value)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise Refused(f"{flag} cannot be {value!r}; {error}") from error


def serve(params: Params) -> NoReturn:
    """Serve until SIGTERM, SIGINT or the end of the parent, then exit the process; `Refused` when it cannot serve."""
    if not Path(params.model.path).is_file():
        raise Refused(f"--model {params.model.path!r} is not a file; fetch it first")
    try:
        # Holds the GIL until the model is loaded. No handler of Python could run, so signals have their default action.
        server = llama.Server(params)
    except RuntimeError as error:
        raise Refused(f"{params.model.path} cannot be served; the lines of llama.cpp say why") from error
    asyncio.run(_until_told(f"serving {params.model.path} at {server.listening_address}"))
    # At once: the shutdown of the library finishes no request, and waits for ever for one that is half sent.
    os._exit(0)


async def _until_told(line: str) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    if LIFELINE in os.environ:
        loop.add_reader(int(os.environ[LIFELINE]), told.set)
    # Only when the handlers are set: a test that reads this line sends a signal at once.
    sys.stderr.write(f"llamacpp: {line}\n")
    await told.wait()


def main() -> int:
    """Run as a program, and return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        serve(parameters(sys.argv[1:]))
    except Refused as refused:
        sys.stderr.write(f"llamacpp: {refused}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
