"""vLLM: the OpenAI server of the pinned image, fed from a folder, a file or the hub.

The flags are those of the pinned version. What that version no longer knows would keep the server from starting: it is
left out with a warning, unless the image is the user's own, which may know it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from modelyard.core.conditions import Problem
from modelyard.core.embedded import SecretKeySelector
from modelyard.core.reasons import Reason
from modelyard.engines.contract import Count, Engine, Gpus, Launch, Loads, Measures, Place
from modelyard.engines.environment import plain, secret
from modelyard.engines.flags import EVERYWHERE, Args, flag, names, positive, value_of
from modelyard.engines.warnings import ignored, one_file, other_vendor

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE: Final = "vllm/vllm-openai:v0.20.0"
NAMES_FLAG: Final = "--served-model-name"

_GONE_BACKENDS: Final = frozenset({"XFORMERS", "TORCH_SDPA"})
"""TORCH_SDPA is still a name there, but only for the vision part of a model."""
_GONE_METHODS: Final = frozenset({"squeezellm", "nvfp4"})
_SHUTDOWN_FLAG: Final = "--shutdown-timeout"
_LONGEST_SHUTDOWN: Final = 24 * 3600


class Speculative(Struct, frozen=True, rename="camel"):
    """Let a small draft model guess tokens that the served model only checks."""

    enabled: Annotated[bool, Meta(description="Whether to use the draft model.")] = False
    model: Annotated[
        str,
        Meta(description="The Model, in the same namespace, that drafts. Needed while enabled.", max_length=253),
    ] = ""
    num_speculative_tokens: Annotated[
        int, Meta(description="How many tokens are drafted per step; 3 to 5 is usual.", ge=1, le=16)
    ] = 4


class VllmConfig(Struct, frozen=True, rename="camel"):
    """What is particular to vLLM."""

    tensor_parallel_size: Annotated[
        Count | None, Meta(description="Over how many GPUs each layer is spread. Left out: all GPUs of the pod.")
    ] = None
    max_model_len: Annotated[
        Count | None, Meta(description="The longest context, in tokens. Left out: that of the model.")
    ] = None
    quantization: Annotated[
        Literal["awq", "gptq", "squeezellm", "fp8", "nvfp4", "compressed-tensors"] | None,
        Meta(description="How the weights are quantized. Left out: as the model says."),
    ] = None
    dtype: Annotated[
        Literal["auto", "float16", "bfloat16"] | None, Meta(description="The data type of weights and activations.")
    ] = None
    kv_cache_dtype: Annotated[
        Literal["auto", "fp8_e5m2", "fp8_e4m3"],
        Meta(description="The data type of the KV cache; the fp8 types halve its memory. auto: that of the model."),
    ] = "auto"
    kv_cache_custom_dtype: Annotated[
        str, Meta(description="Another data type of the KV cache, if the image knows it; wins over kvCacheDtype.")
    ] = ""
    enable_prefix_caching: Annotated[
        bool | None, Meta(description="Whether prompts that begin alike share their KV cache.")
    ] = None
    enable_chunked_prefill: Annotated[
        bool | None, Meta(description="Whether long prompts are read in pieces, between the steps of other requests.")
    ] = None
    max_num_batched_tokens: Annotated[
        Annotated[int, Meta(ge=512, le=2**31 - 1)] | None,
        Meta(description="How many tokens one step may hold: more for throughput, fewer for memory."),
    ] = None
    attention_backend: Annotated[
        Literal["FLASH_ATTN", "FLASHINFER", "XFORMERS", "flashinfer", "flash_attn", "xformers", "torch_sdpa"] | None,
        Meta(description="The implementation of attention. Left out: vLLM chooses."),
    ] = None
    speculative: Annotated[Speculative | None, Meta(description="Let a draft model guess tokens.")] = None
    enable_expert_parallel: Annotated[
        bool | None, Meta(description="Whether the experts of a MoE model are spread over the GPUs, not each split.")
    ] = None
    cpu_offload_gb: Annotated[
        Count | None, Meta(description="How many GB of weights per GPU stay in the memory of the machine.")
    ] = field(default=None, name="cpuOffloadGB")
    gpu_memory_utilization: Annotated[
        Annotated[float, Meta(ge=0.1, le=0.99)] | None,
        Meta(description="Which part of the memory of a GPU may be used. Left out: 0.9."),
    ] = None
    hf_token_secret_ref: Annotated[
        SecretKeySelector | None, Meta(description="The key of a Secret that holds a token of the Hugging Face hub.")
    ] = None


class VllmOptions(Struct, frozen=True):
    """The fields of a spec that vLLM honours."""

    vllm_config: VllmConfig | None = None
    parallel_slots: int | None = None
    extra_args: tuple[str, ...] = ()


def launch(options: VllmOptions, place: Place) -> Launch:
    """Return the command, arguments and environment of the container for these options."""
    config = options.vllm_config or VllmConfig()
    return Launch(
        args=(
            *_address(options, place),
            *_config(config, place),
            *_automatic_parallelism(config, place.gpus),
            *_slots(options),
            *options.extra_args,
        ),
        # The compiler of PyTorch looks up its user, and fails for a UID without an entry in /etc/passwd.
        env=(plain("USER", ENGINE.name), *secret("HF_TOKEN", config.hf_token_secret_ref)),
        warnings=tuple(_warnings(config, place)),
        finishes=_finishes(options),
    )


def _address(options: VllmOptions, place: Place) -> Args:
    host = None if names(options.extra_args, "--host") else EVERYWHERE
    return (
        *((place.model,) if place.model else ()),
        *_served_names(options, place),
        *flag("--host", host),
        *flag("--port", place.port),
        *flag("--revision", place.revision),
    )


def _served_names(options: VllmOptions, place: Place) -> Args:
    """Return the names of the model, the one that vLLM gives it first: answers and metrics are called by that.

    Flags have to follow: it takes every word up to the next one for a name.
    """
    if not place.model or not place.names or names(options.extra_args, NAMES_FLAG):
        return ()
    return (NAMES_FLAG, *dict.fromkeys((place.model, *place.names)))


def _config(config: VllmConfig, place: Place) -> Args:
    on_gpu = place.gpus.count > 0
    return (
        *flag("--tensor-parallel-size", _more_than_one(_parallelism(config, place.gpus))),
        *flag("--max-model-len", positive(config.max_model_len)),
        *flag("--quantization", _known(config.quantization, _GONE_METHODS, place)),
        *flag("--dtype", config.dtype),
        *flag("--kv-cache-dtype", _kv_cache_dtype(config)),
        *flag("--enable-prefix-caching", config.enable_prefix_caching),
        *flag("--enable-chunked-prefill", config.enable_chunked_prefill),
        *flag("--max-num-batched-tokens", positive(config.max_num_batched_tokens)),
        *flag("--attention-backend", _known(_attention_backend(config), _GONE_BACKENDS, place)),
        *flag("--speculative-config", _speculative(config.speculative, place)),
        *flag("--enable-expert-parallel", config.enable_expert_parallel),
        *flag("--cpu-offload-gb", positive(config.cpu_offload_gb) if on_gpu else None),
        *flag("--gpu-memory-utilization", config.gpu_memory_utilization if on_gpu else None),
    )


def _parallelism(config: VllmConfig, gpus: Gpus) -> int | None:
    """Return what was asked for, but no more than the pod has.

    A pod that asks for no GPU may still see some, by its runtime class; how many is not known here.
    """
    asked = positive(config.tensor_parallel_size)
    return min(asked, gpus.count) if asked and gpus.count else asked


def _automatic_parallelism(config: VllmConfig, gpus: Gpus) -> Args:
    if positive(config.tensor_parallel_size):
        return ()
    return flag("--tensor-parallel-size", _more_than_one(gpus.count))


def _more_than_one(count: int | None) -> int | None:
    return count if count and count > 1 else None


def _kv_cache_dtype(config: VllmConfig) -> str | None:
    chosen = config.kv_cache_custom_dtype or config.kv_cache_dtype
    return None if chosen == "auto" else chosen


def _attention_backend(config: VllmConfig) -> str | None:
    return config.attention_backend.upper() if config.attention_backend else None


def _known(value: str | None, gone: frozenset[str], place: Place) -> str | None:
    return None if value in gone and place.default_image else value


def _speculative(wanted: Speculative | None, place: Place) -> str | None:
    if wanted is None or not wanted.enabled or not place.draft:
        return None
    revision = {"revision": place.draft_revision} if place.draft_revision else {}
    told = {"model": place.draft, "num_speculative_tokens": wanted.num_speculative_tokens, **revision}
    return msgspec.json.encode(told).decode()


def _slots(options: VllmOptions) -> Args:
    if names(options.extra_args, "--max-num-seqs"):
        return ()
    return flag("--max-num-seqs", positive(options.parallel_slots))


def _finishes(options: VllmOptions) -> int:
    """Return for how long it ends what it has begun: from 0.18 on, as long as it is told, and by default not at all."""
    given = value_of(tuple(options.extra_args), _SHUTDOWN_FLAG)
    return min(int(given), _LONGEST_SHUTDOWN) if given.isdecimal() else 0


def _warnings(config: VllmConfig, place: Place) -> Iterator[Problem]:
    yield from one_file(place, "vLLM")
    yield from other_vendor(place, IMAGE)
    yield from _too_parallel(config, place.gpus)
    yield from _gone(config, place)
    if config.speculative and config.speculative.enabled and not config.speculative.model:
        yield Problem(
            Reason.SPECULATIVE_MISSING_MODEL,
            "spec.vllmConfig.speculative is enabled without a model, so nothing is drafted",
            "set spec.vllmConfig.speculative.model to the name of a Model, or its enabled to false",
        )
    if config.kv_cache_custom_dtype and config.kv_cache_dtype != "auto":
        yield ignored("spec.vllmConfig.kvCacheDtype has no effect beside kvCacheCustomDtype", "remove one of the two")
    if place.gpus.count == 0:
        yield from _only_with_gpus(config)


def _too_parallel(config: VllmConfig, gpus: Gpus) -> Iterator[Problem]:
    asked = config.tensor_parallel_size or 0
    if 0 < gpus.count < asked:
        yield ignored(
            f"spec.vllmConfig.tensorParallelSize is {asked}, but the pod has {gpus.count} GPU(s) and uses those",
            "raise spec.resources.gpu, or hardware.gpu.count of the Model, or lower spec.vllmConfig.tensorParallelSize",
        )


def _gone(config: VllmConfig, place: Place) -> Iterator[Problem]:
    asked = {
        "quantization": (config.quantization, config.quantization, _GONE_METHODS),
        "attentionBackend": (config.attention_backend, _attention_backend(config), _GONE_BACKENDS),
    }
    for name, (written, meant, gone) in asked.items():
        if meant and _known(meant, gone, place) is None:
            yield ignored(
                f"spec.vllmConfig.{name} is {written}, which {IMAGE} does not know, so vLLM chooses by itself",
                f"remove spec.vllmConfig.{name}, or set spec.image to a build that knows it",
            )


def _only_with_gpus(config: VllmConfig) -> Iterator[Problem]:
    asked = {"cpuOffloadGB": positive(config.cpu_offload_gb), "gpuMemoryUtilization": config.gpu_memory_utilization}
    for name, value in asked.items():
        if value is not None:
            yield ignored(
                f"spec.vllmConfig.{name} has no meaning without a GPU and is left out",
                f"ask for a GPU in spec.resources.gpu, or remove spec.vllmConfig.{name}",
            )


ENGINE: Final = Engine(
    name="vllm",
    container="vllm",
    port=8000,
    loads=Loads.FOLDER,
    options=VllmOptions,
    launch=launch,
    image=lambda _: IMAGE,
    health="/health",
    names_flag=NAMES_FLAG,
    metric="vllm:num_requests_running",
    measures=Measures(
        tokens="vllm:generation_tokens_total",
        delay="vllm:time_to_first_token_seconds",
        running="vllm:num_requests_running",
        waiting="vllm:num_requests_waiting",
        # The second is that of versions before 0.10.
        kv_cache=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    ),
    user=1000,
    shared_memory=True,
    # Its own settings begin with VLLM_, and so do the variables of a Service called vllm.
    service_links=False,
)
