"""PersonaPlex: NVIDIA's speech-to-speech server. The image is the user's, and it fetches its weights by itself."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct, field

from modelyard.core.embedded import SecretKeySelector
from modelyard.engines.contract import Engine, Launch, Loads, Place
from modelyard.engines.environment import plain, secret
from modelyard.engines.flags import flag

PORT: Final = 8998


class PersonaPlexConfig(Struct, frozen=True, rename="camel"):
    """What is particular to PersonaPlex."""

    quantize_4bit: Annotated[
        bool | None, Meta(description="Whether weights are quantized to 4 bits. The image needs bitsandbytes.")
    ] = field(default=None, name="quantize4Bit")
    cpu_offload: Annotated[
        bool | None,
        Meta(description="Whether weights may stay in the memory of the machine. The image needs accelerate."),
    ] = None
    hf_token_secret_ref: Annotated[
        SecretKeySelector | None, Meta(description="The key of a Secret that holds a token of the Hugging Face hub.")
    ] = None


class PersonaPlexOptions(Struct, frozen=True):
    """The fields of a spec that PersonaPlex honours."""

    persona_plex_config: PersonaPlexConfig | None = None


def launch(options: PersonaPlexOptions, place: Place) -> Launch:
    """Return the command, arguments and environment of the container for these options."""
    config = options.persona_plex_config or PersonaPlexConfig()
    return Launch(
        command=("/app/moshi/.venv/bin/python", "-m", "moshi.server"),
        args=(
            *flag("--ssl", "/app/ssl"),
            *flag("--quantize-4bit", config.quantize_4bit),
            *flag("--cpu-offload", config.cpu_offload),
            *flag("--port", None if place.port == PORT else place.port),
        ),
        env=(*secret("HF_TOKEN", config.hf_token_secret_ref), plain("NO_TORCH_COMPILE", "1")),
    )


ENGINE: Final = Engine(
    name="personaplex",
    container="personaplex",
    port=PORT,
    loads=Loads.NOTHING,
    options=PersonaPlexOptions,
    launch=launch,
    image=lambda _: "",
)
