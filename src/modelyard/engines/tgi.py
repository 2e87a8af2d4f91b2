"""Text Generation Inference: fetches from the hub by itself, or serves a folder of a volume.

Its launcher refuses a flag that is given twice, so each flag of ours gives way to the same one in extraArgs.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from modelyard.core.embedded import SecretKeySelector
from modelyard.engines.contract import Count, Engine, Launch, Loads, Measures, Place
from modelyard.engines.environment import plain, secret
from modelyard.engines.flags import EVERYWHERE, Args, flag, names, positive
from modelyard.engines.warnings import one_file, other_vendor

IMAGE: Final = "ghcr.io/huggingface/text-generation-inference:3.3.7"
CACHE: Final = "/data"

_FINISHES_SECONDS: Final = 90
"""How long its launcher lets requests in progress end after SIGTERM; it takes no new ones."""
_SAME: Final = {"--port": ("-p",), "--max-input-length": ("--max-input-tokens",)}
"""Other names of our flags: the launcher refuses to get both."""


class TgiConfig(Struct, frozen=True, rename="camel"):
    """What is particular to Text Generation Inference."""

    quantize: Annotated[
        Literal["bitsandbytes", "gptq", "awq", "eetq"] | None,
        Meta(description="How the weights are quantized. Left out: as the model says."),
    ] = None
    max_input_length: Annotated[Count | None, Meta(description="The longest prompt, in tokens.")] = None
    max_total_tokens: Annotated[
        Count | None, Meta(description="The longest prompt and answer together, in tokens.")
    ] = None
    dtype: Annotated[
        Literal["float16", "bfloat16"] | None, Meta(description="The data type of weights and activations.")
    ] = None
    hf_token_secret_ref: Annotated[
        SecretKeySelector | None, Meta(description="The key of a Secret that holds a token of the Hugging Face hub.")
    ] = None


class TgiOptions(Struct, frozen=True):
    """The fields of a spec that Text Generation Inference honours."""

    tgi_config: TgiConfig | None = None
    extra_args: tuple[str, ...] = ()


def launch(options: TgiOptions, place: Place) -> Launch:
    """Return the command, arguments and environment of the container for these options."""
    config = options.tgi_config or TgiConfig()
    ours: dict[str, str | int | None] = {
        "--model-id": place.model,
        "--revision": place.revision,
        "--hostname": EVERYWHERE,
        "--port": place.port,
        "--quantize": config.quantize,
        "--max-input-length": positive(config.max_input_length),
        "--max-total-tokens": positive(config.max_total_tokens),
        "--dtype": config.dtype,
        "--num-shard": place.gpus.count if place.gpus.count > 1 else None,
    }
    return Launch(
        args=(*_unless_given(ours, options.extra_args), *options.extra_args),
        env=(
            plain("HF_HOME", CACHE),
            # PyTorch looks up the name of its user, and fails for a UID without an entry in /etc/passwd.
            plain("USER", ENGINE.name),
            *secret("HUGGING_FACE_HUB_TOKEN", config.hf_token_secret_ref),
        ),
        warnings=(*one_file(place, "Text Generation Inference"), *other_vendor(place, IMAGE)),
        finishes=_FINISHES_SECONDS,
    )


def _unless_given(ours: dict[str, str | int | None], given: Args) -> Args:
    return tuple(
        word
        for name, value in ours.items()
        if not names(given, name, *_SAME.get(name, ()))
        for word in flag(name, value)
    )


ENGINE: Final = Engine(
    name="tgi",
    container="tgi",
    # The image's own port is 80, which only root may listen on.
    port=8080,
    loads=Loads.ITSELF,
    options=TgiOptions,
    launch=launch,
    image=lambda _: IMAGE,
    health="/health",
    metric="tgi:queue_size",
    measures=Measures(
        # Of a histogram over requests, so that the tokens of an answer count when it ends.
        tokens="tgi_request_generated_tokens_sum",
        running="tgi_batch_current_size",
        waiting="tgi_queue_size",
    ),
    user=1000,
    shared_memory=True,
    folders=(CACHE,),
)
