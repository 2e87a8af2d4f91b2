"""llama.cpp's server: one GGUF file, on the CPU or on GPUs of any vendor."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta, Struct

from modelyard.engines.contract import Engine, Gpus, Launch, Loads, Measures, Place
from modelyard.engines.flags import EVERYWHERE, Args, each, flag, names, positive
from modelyard.engines.warnings import ignored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.conditions import Problem

IMAGE: Final = "ghcr.io/ggml-org/llama.cpp:server"
GPU_IMAGES: Final = {
    "nvidia": f"{IMAGE}-cuda-b10068",
    "amd": f"{IMAGE}-rocm",
    "intel": f"{IMAGE}-intel",
}

_ALL_LAYERS: Final = 99
_SPLIT_MODES: Final = {"layer": "layer", "tensor": "row", "row": "row", "none": "none"}
_MODEL_FLAGS: Final = (
    "--model", "-m", "--model-url", "-mu", "--hf-repo", "-hf", "-hfr", "--docker-repo", "-dr",
    "--models-dir", "--models-preset",
)  # fmt: skip
_RANGE: Final = re.compile(r"\s*(\d{1,9})\s*-\s*(\d{1,9})\s*")


class RopeScaling(Struct, frozen=True, rename="camel"):
    """Serve more context than the model was trained for."""

    type: Annotated[Literal["linear", "yarn", "longrope"], Meta(description="The method; yarn is the usual one.")]
    factor: Annotated[
        Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?$", max_length=32)] | None,
        Meta(description="How many times the trained context, such as 2.0."),
    ] = None
    original_context: Annotated[
        Annotated[int, Meta(ge=128, le=2**31 - 1)] | None,
        Meta(description="The context the model was trained for, in tokens. Recommended with yarn."),
    ] = None


class LlamaCppOptions(Struct, frozen=True):
    """The fields of a spec that llama.cpp honours."""

    context_size: int | None = None
    rope_scaling: RopeScaling | None = None
    parallel_slots: int | None = None
    flash_attention: bool | None = None
    jinja: bool | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    cache_type_custom_k: str | None = None
    cache_type_custom_v: str | None = None
    moe_cpu_offload: bool | None = None
    moe_cpu_layers: int | None = None
    no_kv_offload: bool | None = None
    tensor_overrides: tuple[str, ...] = ()
    batch_size: int | None = None
    u_batch_size: int | None = None
    no_warmup: bool | None = None
    reasoning_budget: int | None = None
    reasoning_budget_message: str | None = None
    metadata_overrides: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()


def launch(options: LlamaCppOptions, place: Place) -> Launch:
    """Return the command, arguments and environment of the container for these options."""
    return Launch(
        args=(
            *_model(options, place),
            *_address(options, place),
            *_gpus(place.gpus),
            *_context(options, place),
            *_memory(options, place.gpus),
            *_reasoning(options),
            *each("--override-kv", options.metadata_overrides),
            *flag("--metrics", not names(options.extra_args, "--metrics")),
            *options.extra_args,
        ),
        warnings=tuple(_warnings(options, place)),
    )


def _model(options: LlamaCppOptions, place: Place) -> Args:
    if names(options.extra_args, *_MODEL_FLAGS):
        return ()
    if place.url:
        return flag("--model-url", place.url)
    return flag("--model" if place.model.startswith("/") else "--hf-repo", place.model)


def _address(options: LlamaCppOptions, place: Place) -> Args:
    host = None if names(options.extra_args, "--host") else EVERYWHERE
    return (*flag("--host", host), *flag("--port", place.port))


def _gpus(gpus: Gpus) -> Args:
    if gpus.count < 1:
        return ()
    layers = flag("--n-gpu-layers", gpus.layers if gpus.layers > 0 else _ALL_LAYERS)
    if gpus.count == 1:
        return layers
    mode = _SPLIT_MODES.get(gpus.strategy, "layer")
    ratios = None if mode == "none" else ",".join(str(part) for part in _ratios(gpus) or (1,) * gpus.count)
    return (*layers, *flag("--split-mode", mode), *flag("--tensor-split", ratios))


def _ratios(gpus: Gpus) -> tuple[int, ...]:
    """Return the shares of the GPUs in lowest terms; nothing unless there is a valid range for each."""
    ranges = [_RANGE.fullmatch(text) for text in gpus.layer_split]
    counts = [int(found[2]) - int(found[1]) + 1 for found in ranges if found]
    if len(ranges) != gpus.count or len(counts) != gpus.count or min(counts) < 1:
        return ()
    return tuple(count // math.gcd(*counts) for count in counts)


def _context(options: LlamaCppOptions, place: Place) -> Args:
    return (
        *flag("--ctx-size", positive(options.context_size)),
        *_rope(options, place),
        *flag("--parallel", None if names(options.extra_args, "--parallel") else positive(options.parallel_slots)),
    )


def _rope(options: LlamaCppOptions, place: Place) -> Args:
    rope = options.rope_scaling
    if rope is None or names(options.extra_args, "--rope-scaling") or _is_unknown(rope, place):
        return ()
    return (
        *flag("--rope-scaling", rope.type),
        *flag("--rope-scale", rope.factor),
        *flag("--yarn-orig-ctx", positive(rope.original_context)),
    )


def _is_unknown(rope: RopeScaling, place: Place) -> bool:
    """Whether the server would refuse the method. It reads LongRoPE from the model; a fork may take the flag."""
    return rope.type == "longrope" and place.default_image


def _memory(options: LlamaCppOptions, gpus: Gpus) -> Args:
    return (
        *flag("--flash-attn", "on" if options.flash_attention and gpus.count > 0 else None),
        *flag("--jinja", options.jinja),
        *flag("--cache-type-k", options.cache_type_custom_k or options.cache_type_k),
        *flag("--cache-type-v", options.cache_type_custom_v or options.cache_type_v),
        *flag("--cpu-moe", options.moe_cpu_offload),
        *flag("--n-cpu-moe", positive(options.moe_cpu_layers)),
        *flag("--no-kv-offload", options.no_kv_offload),
        *each("--override-tensor", options.tensor_overrides),
        *flag("--batch-size", positive(options.batch_size)),
        *flag("--ubatch-size", positive(options.u_batch_size)),
        *flag("--no-warmup", options.no_warmup),
    )


def _reasoning(options: LlamaCppOptions) -> Args:
    if options.reasoning_budget is None:
        return ()
    return (
        *flag("--reasoning-budget", options.reasoning_budget),
        *flag("--reasoning-budget-message", options.reasoning_budget_message),
    )


def _warnings(options: LlamaCppOptions, place: Place) -> Iterator[Problem]:
    if options.flash_attention and place.gpus.count < 1:
        yield ignored("spec.flashAttention is left out, because the pod has no GPU", "ask for one, or remove the field")
    if options.rope_scaling and names(options.extra_args, "--rope-scaling"):
        yield ignored(
            "spec.ropeScaling is left out, because spec.extraArgs holds --rope-scaling", "remove one of the two"
        )
    elif options.rope_scaling and _is_unknown(options.rope_scaling, place):
        yield ignored(
            "ropeScaling is left out, because llama.cpp takes longrope from the model and knows no such flag",
            "remove it, or choose yarn or linear",
        )
    if options.reasoning_budget_message and options.reasoning_budget is None:
        yield ignored("spec.reasoningBudgetMessage is left out, because there is no budget", "set spec.reasoningBudget")
    yield from _of_layers(place.gpus)
    if place.revision and not place.url:
        yield ignored(
            f"llama.cpp cannot be told the revision {place.revision} of a whole repository and takes the main one",
            "name the file in spec.source of the Model, or remove spec.skipModelInit",
        )


def _of_layers(gpus: Gpus) -> Iterator[Problem]:
    """Yield what the Model says of layers without effect."""
    if gpus.layers > 0 and gpus.count < 1:
        yield ignored("hardware.gpu.layers of the Model has no effect without a GPU", "ask for one, or remove it")
    if gpus.layer_split and gpus.count < 2:
        yield ignored(
            "hardware.gpu.sharding.layerSplit of the Model has no effect with fewer than two GPUs",
            "raise hardware.gpu.count of the Model, or remove it",
        )
    elif gpus.layer_split and not _ratios(gpus):
        yield ignored(
            f"layerSplit of the Model is not one range of layers for each of {gpus.count} GPUs, "
            "so the layers are spread evenly",
            "write ranges such as 0-24 in its hardware.gpu.sharding.layerSplit, one for each GPU",
        )


def _image(gpus: Gpus) -> str:
    return GPU_IMAGES.get(gpus.vendor, IMAGE) if gpus.count > 0 else IMAGE


ENGINE: Final = Engine(
    name="llamacpp",
    container="llama-server",
    port=8080,
    loads=Loads.FILE,
    options=LlamaCppOptions,
    launch=launch,
    image=_image,
    health="/health",
    metric="llamacpp:requests_processing",
    measures=Measures(
        tokens="llamacpp:tokens_predicted_total",
        running="llamacpp:requests_processing",
        waiting="llamacpp:requests_deferred",
        # Gone since 2025; images from before still tell.
        kv_cache=("llamacpp:kv_cache_usage_ratio",),
    ),
    user=1000,
)
