"""The InferenceService kind as users write it and as they read it back.

The blocks that belong to one engine alone, such as `vllmConfig`, are declared by that engine. What must hold between
fields is in `rules.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from modelyard.core.conditions import Conditions
from modelyard.core.embedded import (
    EnvVar,
    PodSecurityContext,
    Probe,
    Toleration,
)
from modelyard.core.hosts import CacheType
from modelyard.core.pod_fields import Annotations, Image, Labels, ObjectName
from modelyard.core.resources import Resource
from modelyard.engines.llamacpp import RopeScaling
from modelyard.engines.personaplex import PersonaPlexConfig
from modelyard.engines.tgi import TgiConfig
from modelyard.engines.vllm import VllmConfig
from modelyard.kinds.contract import Column
from modelyard.kinds.shared.pod_settings import ContainerSecurity, PullSecrets

RESOURCE = Resource("inference.llmkube.dev", "v1alpha1", "InferenceService", "inferenceservices")

SERVICE_LABEL = "inference.llmkube.dev/service"
RUNTIME_LABEL = "inference.llmkube.dev/runtime"

CREATED = "modelyard.dev/created"
"""On every pod: when its service was created. The GPU queue is sorted by it."""

PATH = "/v1/chat/completions"

Runtime = Literal["llamacpp", "vllm", "tgi", "personaplex", "generic"]
Priority = Literal["critical", "high", "normal", "low", "batch"]

Port = Annotated[int, Meta(ge=1, le=65535)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Natural = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Amount = Annotated[str, Meta(max_length=32)]
"""A quantity; `rules.py` says so in words. Empty means absent: Helm templates write that."""
Word = Annotated[str, Meta(max_length=128 * 1024)]
"""What Linux takes as one argument: a chat template or a script may be one."""
Words = tuple[Word, ...]
MANY = 1024
"""More than a person writes by hand; a large model may have an override for each of its hundreds of tensors."""


class Metric(Struct, frozen=True, rename="camel"):
    """One thing to scale by."""

    type: Annotated[
        Literal["Pods", "Resource"], Meta(description="Pods: a metric of the engine. Resource: cpu, memory.")
    ]
    name: Annotated[
        str, Meta(description="What it is called, such as llamacpp:requests_processing.", min_length=1, max_length=253)
    ]
    target_average_value: Annotated[Amount, Meta(description="How much each pod should have. Required for Pods.")] = ""
    target_average_utilization: Annotated[
        Positive | None, Meta(description="Per cent of the request that each pod should use. Required for Resource.")
    ] = None


class Autoscaling(Struct, frozen=True, rename="camel"):
    """Bounds and metrics of the HorizontalPodAutoscaler."""

    max_replicas: Annotated[int, Meta(description="The most pods it may ask for.", ge=1, le=100)]
    min_replicas: Annotated[int, Meta(description="The fewest pods it may ask for.", ge=1, le=10)] = 1
    metrics: Annotated[
        tuple[Metric, ...],
        Meta(description="What to scale by. Without any: 2 requests in progress for each pod.", max_length=32),
    ] = ()


class Endpoint(Struct, frozen=True, rename="camel"):
    """Where requests are sent."""

    port: Annotated[
        Port, Meta(description="The port of the Service; of the container too, unless containerPort is set.")
    ] = 8080
    path: Annotated[
        str, Meta(description="The path that status.endpoint names.", pattern=r"^(/[^\s?#]*)?$", max_length=1024)
    ] = PATH
    type: Annotated[Literal["ClusterIP", "NodePort", "LoadBalancer"], Meta(description="The type of the Service.")] = (
        "ClusterIP"
    )


class Resources(Struct, frozen=True, rename="camel"):
    """What one pod needs."""

    gpu: Annotated[
        Annotated[int, Meta(ge=0, le=8)] | None,
        Meta(description="How many GPUs. The Model's hardware.gpu.count wins if it is larger than 0."),
    ] = None
    gpu_memory: Annotated[
        Amount, Meta(description="How much memory the GPUs of a pod must have together, such as 16Gi.")
    ] = ""
    cpu: Annotated[Amount, Meta(description="CPU request, such as 2 or 500m.")] = ""
    memory: Annotated[Amount, Meta(description="Memory request, such as 4Gi.")] = ""
    host_memory: Annotated[
        Amount,
        Meta(description="Memory request where weights or KV cache stay in system memory. It wins over memory."),
    ] = ""
    ephemeral_storage: Annotated[
        Amount, Meta(description="Request and limit of disk space of the node, such as 50Gi.")
    ] = ""


class ModelCache(Struct, frozen=True, rename="camel"):
    """Where the pods of one service keep the weights that they fetch."""

    persistence: Annotated[
        Literal["Cached", "Ephemeral"],
        Meta(description="Ephemeral: each pod fetches them anew, into an emptyDir; set resources.ephemeralStorage."),
    ] = "Cached"
    claim_name: Annotated[
        str,
        Meta(
            description="A claim of the same namespace to use instead of the cluster's cache. It must exist.",
            max_length=253,
            pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        ),
    ] = ""


class ProbeOverrides(Struct, frozen=True, rename="camel"):
    """Probes that replace those of the engine, each as a whole."""

    startup: Annotated[Probe | None, Meta(description="Whether it has started.")] = None
    liveness: Annotated[Probe | None, Meta(description="Whether it must be started again.")] = None
    readiness: Annotated[Probe | None, Meta(description="Whether it can take requests.")] = None


class InferenceServiceSpec(Struct, frozen=True, rename="camel"):
    """A server that answers requests with a model."""

    model_ref: Annotated[
        str,
        Meta(
            description="The Model to serve, in the same namespace.",
            min_length=1,
            max_length=253,
            pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        ),
    ]
    runtime: Annotated[Runtime, Meta(description="The engine: which inference server program runs.")] = "llamacpp"
    replicas: Annotated[
        int, Meta(description="How many pods. With autoscaling: how many to start with; 0 for none.", ge=0, le=10)
    ] = 1
    autoscaling: Annotated[Autoscaling | None, Meta(description="Let the number of pods follow the load.")] = None
    endpoint: Annotated[Endpoint | None, Meta(description="Where requests are sent.")] = None
    resources: Annotated[Resources, Meta(description="What one pod needs.")] = Resources()
    skip_model_init: Annotated[
        bool | None, Meta(description="Fetch no weights: the image has them, or the engine fetches them itself.")
    ] = None

    model_cache: Annotated[
        ModelCache | None, Meta(description="Where fetched weights are kept. Left out: in the cluster's cache.")
    ] = None

    image: Annotated[
        Image, Meta(description="The container image. Left out: the engine's own; generic and personaplex have none.")
    ] = ""
    image_pull_secrets: PullSecrets = ()
    command: Annotated[Words, Meta(description="The program to run instead of the engine's own.", max_length=64)] = ()
    args: Annotated[Words, Meta(description="All arguments of the program. Only generic.", max_length=MANY)] = ()
    extra_args: Annotated[
        Words, Meta(description="Arguments after all others. Only llamacpp, vllm and tgi.", max_length=MANY)
    ] = ()
    env: Annotated[
        tuple[EnvVar, ...], Meta(description="Environment of the server; it wins over ours.", max_length=MANY)
    ] = ()
    container_port: Annotated[
        Port | None, Meta(description="The port the server listens on. Left out: endpoint.port, or the engine's own.")
    ] = None
    probe_overrides: Annotated[
        ProbeOverrides, Meta(description="Probes that replace those of the engine, each as a whole.")
    ] = ProbeOverrides()

    priority: Annotated[
        Priority, Meta(description="Who gets GPUs first: the pods have the PriorityClass llmkube-PRIORITY.")
    ] = "normal"
    priority_class_name: Annotated[ObjectName, Meta(description="Another PriorityClass; it wins over priority.")] = ""
    node_selector: Annotated[Labels, Meta(description="Labels that a node must have.")] = {}
    tolerations: Annotated[
        tuple[Toleration, ...],
        Meta(
            description="Taints that a node may have. The taint of the GPU resource is tolerated anyway.", max_length=64
        ),
    ] = ()
    runtime_class_name: Annotated[ObjectName, Meta(description="The RuntimeClass of the pods, such as nvidia.")] = ""
    pod_labels: Annotated[Labels, Meta(description="More labels of the pods. Ours win.")] = {}
    pod_annotations: Annotated[Annotations, Meta(description="Annotations of the pods.")] = {}
    pod_security_context: Annotated[
        PodSecurityContext | None,
        Meta(
            description="Replaces, field by field, our defaults: runAsNonRoot, seccomp RuntimeDefault, user and group."
        ),
    ] = None
    security_context: ContainerSecurity = None
    eviction_protection: Annotated[
        bool | None, Meta(description="Keep hosts outside the cluster from evicting it when memory runs short.")
    ] = None

    context_size: Annotated[
        Annotated[int, Meta(ge=128, le=2_097_152)] | None, Meta(description="llamacpp: the context, in tokens.")
    ] = None
    parallel_slots: Annotated[
        Annotated[int, Meta(ge=1, le=64)] | None,
        Meta(description="llamacpp, vllm: how many requests at the same time."),
    ] = None
    flash_attention: Annotated[bool | None, Meta(description="llamacpp: flash attention, on GPUs.")] = None
    jinja: Annotated[
        bool | None, Meta(description="llamacpp: chat templates with Jinja, which calling tools needs.")
    ] = None
    cache_type_k: Annotated[CacheType | None, Meta(description="llamacpp: type of the keys in the KV cache.")] = None
    cache_type_v: Annotated[CacheType | None, Meta(description="llamacpp: type of the values in the KV cache.")] = None
    cache_type_custom_k: Annotated[
        str, Meta(description="llamacpp: any other type of the keys; it wins over cacheTypeK.", max_length=64)
    ] = ""
    cache_type_custom_v: Annotated[
        str, Meta(description="llamacpp: any other type of the values; it wins over cacheTypeV.", max_length=64)
    ] = ""
    batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=16384)] | None, Meta(description="llamacpp: tokens of a prompt at a time.")
    ] = None
    u_batch_size: Annotated[Positive | None, Meta(description="llamacpp: tokens that are computed at a time.")] = None
    rope_scaling: Annotated[
        RopeScaling | None, Meta(description="llamacpp: serve a longer context than the model was trained for.")
    ] = None
    moe_cpu_offload: Annotated[
        bool | None, Meta(description="llamacpp: keep all experts in system memory; set resources.hostMemory.")
    ] = field(default=None, name="moeCPUOffload")
    moe_cpu_layers: Annotated[
        Natural | None, Meta(description="llamacpp: of how many layers to keep the experts in system memory.")
    ] = field(default=None, name="moeCPULayers")
    no_kv_offload: Annotated[
        bool | None, Meta(description="llamacpp: keep the KV cache in system memory; set resources.hostMemory.")
    ] = None
    tensor_overrides: Annotated[
        Words, Meta(description="llamacpp: where tensors go, such as exps=CPU.", max_length=MANY)
    ] = ()
    metadata_overrides: Annotated[
        Words, Meta(description="llamacpp: GGUF metadata to replace, as key=type:value.", max_length=MANY)
    ] = ()
    no_warmup: Annotated[bool | None, Meta(description="llamacpp: skip the first, empty run.")] = None
    reasoning_budget: Annotated[
        Natural | None, Meta(description="llamacpp: how many tokens of reasoning an answer may have; 0 for none.")
    ] = None
    reasoning_budget_message: Annotated[
        str, Meta(description="llamacpp: what the model is told at the end of its budget. Needs reasoningBudget.")
    ] = ""

    vllm_config: Annotated[VllmConfig | None, Meta(description="Only vllm.")] = None
    tgi_config: Annotated[TgiConfig | None, Meta(description="Only tgi.")] = None
    persona_plex_config: Annotated[PersonaPlexConfig | None, Meta(description="Only personaplex.")] = None


class InferenceServiceStatus(Struct, frozen=True, rename="camel"):
    """What is true of an inference service."""

    phase: Annotated[str, Meta(description="One word for the state; docs/kinds/inferenceservice.md has the table.")] = (
        ""
    )
    ready_replicas: Annotated[int, Meta(description="How many pods are ready.")] = 0
    replicas: Annotated[int, Meta(description="How many pods there are.")] = 0
    desired_replicas: Annotated[int, Meta(description="How many pods there should be now.")] = 0
    selector: Annotated[str, Meta(description="Selects the pods, for autoscalers.")] = ""
    endpoint: Annotated[str, Meta(description="Where requests are sent, from within the cluster.")] = ""
    model_ready: Annotated[bool, Meta(description="Whether the Model may be served.")] = False
    effective_priority: Annotated[int, Meta(description="The value of the PriorityClass that the pods have.")] = 0
    scheduling_status: Annotated[str, Meta(description="Why pods cannot be scheduled; empty when they can.")] = ""
    scheduling_message: Annotated[str, Meta(description="What the scheduler says.")] = ""
    waiting_for: Annotated[str, Meta(description="What is missing, such as nvidia.com/gpu: 2.")] = ""
    queue_position: Annotated[
        int, Meta(description="The place among all services that wait for GPUs; 0: not waiting.")
    ] = 0
    last_updated: Annotated[
        str, Meta(description="When this status last changed.", extra_json_schema={"format": "date-time"})
    ] = ""
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[
        Conditions, Meta(description="Ready, Available, Progressing, Degraded and others, and why.")
    ] = ()


COLUMNS = (
    Column("PHASE", "string", ".status.phase"),
    Column("MODEL", "string", ".spec.modelRef"),
    Column("REPLICAS", "integer", ".status.readyReplicas"),
    Column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("SCHEDULING", "string", ".status.schedulingStatus", wide=True),
    Column("QUEUE", "integer", ".status.queuePosition", wide=True),
    Column("PRIORITY", "string", ".spec.priority", wide=True),
    Column("ENDPOINT", "string", ".status.endpoint"),
)
