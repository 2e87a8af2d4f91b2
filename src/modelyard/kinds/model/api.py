"""The Model kind as users write it and as they read it back. Services that serve a Model read its spec, too."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from modelyard.core.conditions import Conditions
from modelyard.core.embedded import Toleration
from modelyard.core.gguf import GgufReport
from modelyard.core.quantities import AMOUNT_PATTERN
from modelyard.core.resources import Resource
from modelyard.kinds.contract import Column

RESOURCE = Resource("inference.llmkube.dev", "v1alpha1", "Model", "models")

MODEL_LABEL = "inference.llmkube.dev/model"
"""On every pod that has to do with the weights of a Model: the Model's name, shortened to what a label holds."""

DRAFT_LABEL = "modelyard.dev/draft-model"
"""On pods that have a second Model, to draft answers with: its name, shortened in the same way."""

EXTENDED_RESOURCE = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-z0-9]([-a-z0-9._]*[a-z0-9])?$"

Amount = Annotated[str, Meta(pattern=f"^$|{AMOUNT_PATTERN}", max_length=32)]
"""A quantity. Empty means absent: Helm templates write that for values that are not set."""
ExtendedResource = Annotated[str, Meta(pattern=EXTENDED_RESOURCE, min_length=1, max_length=317)]
LayerRange = Annotated[str, Meta(pattern=r"^[0-9]{1,5}-[0-9]{1,5}$", max_length=11)]


class RefreshPolicy(StrEnum):
    """When weights that are there are fetched again."""

    IF_NOT_PRESENT = "IfNotPresent"
    ON_CHANGE = "OnChange"


class Format(StrEnum):
    """What the weights are stored as."""

    GGUF = "gguf"
    MLX = "mlx"
    SAFETENSORS = "safetensors"
    PYTORCH = "pytorch"
    CUSTOM = "custom"


class Accelerator(StrEnum):
    """What a model is computed on."""

    CPU = "cpu"
    METAL = "metal"
    CUDA = "cuda"
    ROCM = "rocm"
    INTEL = "intel"


class SourceSecret(Struct, frozen=True, rename="camel"):
    """A Secret of the same namespace."""

    name: Annotated[
        str,
        Meta(description="Its name.", min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"),
    ]


class Sharding(Struct, frozen=True, rename="camel"):
    """How a model is spread over several GPUs."""

    strategy: Annotated[
        Literal["layer", "tensor", "row", "pipeline", "none"],
        Meta(description="layer and pipeline: whole layers. tensor and row: rows of each tensor. none: one GPU."),
    ] = "layer"
    layer_split: Annotated[
        tuple[LayerRange, ...],
        Meta(description="Layers of each GPU, such as 0-24 and 25-39. Left out: equal shares.", max_length=8),
    ] = ()


class Gpu(Struct, frozen=True, rename="camel"):
    """The GPUs that one pod needs for the model."""

    enabled: Annotated[bool | None, Meta(description="Only a note: `count` decides how many GPUs a pod gets.")] = None
    count: Annotated[
        int, Meta(description="How many. More than 0 wins over the service's resources.gpu.", ge=0, le=8)
    ] = 0
    memory: Annotated[Amount | None, Meta(description="Only a note. The service's resources.gpuMemory schedules.")] = (
        None
    )
    vendor: Annotated[
        Literal["nvidia", "amd", "intel"], Meta(description="Which resource is asked for, and which image is used.")
    ] = "nvidia"
    runtime: Annotated[
        Literal["vulkan", "rocm"] | None,
        Meta(description="What AMD GPUs are used with: rocm. vulkan has no effect; set the service's image for it."),
    ] = None
    layers: Annotated[
        int, Meta(description="How many layers llama.cpp puts on GPUs. 0 or -1: all.", ge=-1, le=2**31 - 1)
    ] = 0
    sharding: Annotated[Sharding | None, Meta(description="How the model is spread over several GPUs.")] = None
    resource_name: Annotated[
        ExtendedResource | None, Meta(description="The resource to ask for instead of the vendor's, domain/name.")
    ] = None
    toleration_key: Annotated[
        ExtendedResource | None, Meta(description="The taint to tolerate instead of the one named as the resource.")
    ] = None


class Hardware(Struct, frozen=True, rename="camel"):
    """What the model is computed on."""

    accelerator: Annotated[
        Accelerator, Meta(description="metal: a Mac outside the cluster serves it. Others: pods do.")
    ] = Accelerator.CPU
    memory_budget: Annotated[
        Amount | None, Meta(description="How much memory of a Mac the model may use. Only with metal.")
    ] = None
    memory_fraction: Annotated[
        Annotated[float, Meta(ge=0.0, le=1.0)] | None,
        Meta(description="The same as a share, more than 0 and at most 1. Only with metal."),
    ] = None
    gpu: Annotated[Gpu | None, Meta(description="The GPUs that one pod needs.")] = None


class ModelResources(Struct, frozen=True, rename="camel"):
    """What the model is expected to need. Only a note: the service's own resources count."""

    cpu: Annotated[Amount | None, Meta(description="CPU, such as 4 or 500m.")] = None
    memory: Annotated[Amount | None, Meta(description="Memory, such as 8Gi.")] = None


class ModelSpec(Struct, frozen=True, rename="camel"):
    """Weights of a model: where they come from, and what they need."""

    source: Annotated[
        str,
        Meta(
            description="Where the weights are: https://..., org/repo[@rev], hf://org/repo[@rev][/file], "
            "s3://bucket/key, pvc://claim/path, file:///path or /path.",
            min_length=1,
            max_length=2048,
            pattern=r"^[^\s]+( +[^\s]+)*$",
        ),
    ]
    sha256: Annotated[
        str,
        Meta(description="What the one file must hash to, in hexadecimal.", pattern="^[0-9a-fA-F]{64}$", max_length=64),
    ] = ""
    source_secret_ref: Annotated[
        SourceSecret | None,
        Meta(description="A Secret that becomes the environment of the downloader: HF_TOKEN, AWS_ACCESS_KEY_ID ..."),
    ] = None
    refresh_policy: Annotated[
        RefreshPolicy, Meta(description="OnChange: a new pod fetches again what changed upstream.")
    ] = RefreshPolicy.IF_NOT_PRESENT
    prefetch: Annotated[bool, Meta(description="Fetch into the shared cache now, before any service needs it.")] = False
    prefetch_tolerations: Annotated[
        tuple[Toleration, ...], Meta(description="Taints that the pod of the prefetch Job tolerates.", max_length=32)
    ] = ()
    format: Annotated[Format, Meta(description="What the weights are stored as.")] = Format.GGUF
    quantization: Annotated[
        str, Meta(description="How it is quantized, such as Q4_K_M. Compared with the GGUF header.", max_length=64)
    ] = ""
    hardware: Annotated[Hardware, Meta(description="What the model is computed on.")] = Hardware()
    resources: Annotated[ModelResources | None, Meta(description="Only a note: the service's own resources count.")] = (
        None
    )


class ModelPhase(StrEnum):
    """One word for the state. `Copying` is never written: pods copy local files themselves."""

    PENDING = "Pending"
    DOWNLOADING = "Downloading"
    COPYING = "Copying"
    READY = "Ready"
    FAILED = "Failed"


class ModelStatus(Struct, frozen=True, rename="camel"):
    """What is true of a model."""

    phase: Annotated[ModelPhase, Meta(description="One word for the state. Ready: it may be served.")] = (
        ModelPhase.PENDING
    )
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
    Column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("SIZE", "string", ".status.size"),
    Column("ACCELERATOR", "string", ".spec.hardware.accelerator"),
    Column("ARCH", "string", ".status.gguf.architecture", wide=True),
)
