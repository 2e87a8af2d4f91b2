"""The header of a GGUF file, as `net/gguf.py` reads it and the status of a Model shows it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class GgufReport(Struct, frozen=True, rename="camel"):
    """What the header of a GGUF file says, as the status of a Model shows it. What it does not say is empty."""

    architecture: Annotated[str, Meta(description="Such as llama or qwen2.")] = ""
    model_name: Annotated[str, Meta(description="What its author calls it.")] = ""
    quantization: Annotated[str, Meta(description="How most of it is quantized, such as Q4_K_M.")] = ""
    context_length: Annotated[int, Meta(description="How many tokens it was trained to look at.")] = 0
    embedding_size: Annotated[int, Meta(description="The length of its embeddings.")] = 0
    layer_count: Annotated[int, Meta(description="How many layers it has.")] = 0
    head_count: Annotated[int, Meta(description="How many attention heads it has.")] = 0
    tensor_count: Annotated[int, Meta(description="How many tensors the file holds.")] = 0
    file_version: Annotated[int, Meta(description="The version of the file format.")] = 0
    license: Annotated[str, Meta(description="Its license.")] = ""
