"""The status of a Model, as users read it back. Its spec is in `kinds/shared/models.py`: services read it too."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from modelyard.core.conditions import Conditions
from modelyard.core.gguf import GgufReport
from modelyard.kinds.contract import Column


class Phase(StrEnum):
    """One word for the state. `Copying` is never written: pods copy local files themselves."""

    PENDING = "Pending"
    DOWNLOADING = "Downloading"
    COPYING = "Copying"
    READY = "Ready"
    FAILED = "Failed"


class ModelStatus(Struct, frozen=True, rename="camel"):
    """What is true of a model."""

    phase: Annotated[Phase, Meta(description="One word for the state. Ready: it may be served.")] = Phase.PENDING
    size: Annotated[str, Meta(description="How large the weights are; 0 until that is known.")] = "0"
    path: Annotated[str, Meta(description="Where pods find the weights.")] = ""
    cache_key: Annotated[str, Meta(description="The folder of the cache: a hash of spec.source.")] = ""
    sha256: Annotated[str, Meta(description="The hash of the one file, once a pod has computed it.")] = ""
    source_etag: Annotated[
        str, Meta(description="The version that pods have, or that upstream had when it was first looked at.")
    ] = field(default="", name="sourceETag")
    source_content_length: Annotated[int, Meta(description="How many bytes that version has.")] = 0
    last_revalidated: Annotated[
        str | None,
        Meta(description="When upstream last told something new.", extra_json_schema={"format": "date-time"}),
    ] = None
    accelerator_ready: Annotated[bool, Meta(description="Whether some node has the accelerator.")] = False
    gguf: Annotated[GgufReport | None, Meta(description="What the header of the GGUF file says.")] = None
    last_updated: Annotated[
        str, Meta(description="When this status last changed.", extra_json_schema={"format": "date-time"})
    ] = ""
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[
        Conditions,
        Meta(description="Ready, Available, Progressing, Degraded, WeightsPresent, SourceDrifted, FieldsIgnored."),
    ] = ()


COLUMNS = (
    Column("PHASE", "string", ".status.phase"),
    Column("SIZE", "string", ".status.size"),
    Column("ACCELERATOR", "string", ".spec.hardware.accelerator"),
    Column("ARCH", "string", ".status.gguf.architecture", wide=True),
)
