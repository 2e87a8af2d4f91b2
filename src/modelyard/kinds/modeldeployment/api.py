"""The ModelDeployment kind as users write it and as they read it back."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from modelyard.core.conditions import Conditions
from modelyard.core.embedded import EnvVar, ResourceRequirements, Toleration
from modelyard.core.pod_fields import Image, Labels
from modelyard.core.quantities import AMOUNT_PATTERN
from modelyard.core.resources import Resource
from modelyard.kinds.contract import Column
from modelyard.kinds.model.api import SourceSecret

RESOURCE = Resource("ai.example.com", "v1alpha1", "ModelDeployment", "modeldeployments")

DEPLOYMENT_LABEL = "modeldeployment"
"""On every child and pod: the name of the object. The guide selects by it."""
WEIGHTS_LABEL = "modelyard.dev/weights"
"""On Jobs, on the Deployment and on pods: the key of the weights that they fetch or serve."""
RETRY = "modelyard.dev/retry"
"""Annotation of the object: any new value makes a failed download start again."""

NAME_LIMIT = 63
"""The Service is called like the object, and Service names end at 63 characters."""

Hash = Annotated[str, Meta(pattern="^[0-9a-fA-F]{64}$", max_length=64)]
ObjectName = Annotated[str, Meta(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", max_length=253)]


class WeightsStorage(Struct, frozen=True, rename="camel"):
    """The PersistentVolumeClaim that holds the weights."""

    size: Annotated[
        Annotated[str, Meta(pattern=AMOUNT_PATTERN, max_length=32)] | None,
        Meta(description="How large it is; it can grow, not shrink. Left out: as the operator's --model-cache-size."),
    ] = None
    storage_class_name: Annotated[
        ObjectName, Meta(description="Its storage class. Left out: that of the operator, or the cluster's default.")
    ] = ""
    access_mode: Annotated[
        Literal["ReadWriteOnce", "ReadWriteMany"],
        Meta(description="ReadWriteOnce keeps all pods on one node; several nodes need ReadWriteMany."),
    ] = "ReadWriteOnce"
    existing_claim: Annotated[
        ObjectName, Meta(description="A claim of yours to use instead. It is never changed or deleted.")
    ] = ""
    retain: Annotated[
        bool, Meta(description="Keep the claim when the object is decommissioned or deleted. Fixed at creation.")
    ] = False


class Autoscaling(Struct, frozen=True, rename="camel"):
    """How the number of pods follows the load while autoScaling is true."""

    min_replicas: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None, Meta(description="The fewest pods. Left out: replicas, at least 1.")
    ] = None
    max_replicas: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="The most pods. Left out: 10, or minReplicas if that is more."),
    ] = None
    metric: Annotated[
        str,
        Meta(
            description="cpu, memory, or the name of a metric of the pods. Left out: requests in progress.",
            pattern=r"^([A-Za-z_][A-Za-z0-9_:.-]*)?$",
            max_length=253,
        ),
    ] = ""
    target: Annotated[
        int, Meta(description="The average per pod; of cpu and memory, in percent of the request.", ge=1, le=10**9)
    ] = 2


class Download(Struct, frozen=True, rename="camel"):
    """The Job that fetches the weights."""

    backoff_limit: Annotated[
        int, Meta(description="How many pods may fail before the Job is replaced by a new one.", ge=0, le=100)
    ] = 6
    deadline_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None,
        Meta(description="How long the Job may take before it has failed. Left out: as long as it needs."),
    ] = None


class DrainSettings(Struct, frozen=True, rename="camel"):
    """How requests in progress are treated before pods stop for good."""

    timeout_seconds: Annotated[
        int, Meta(description="How long they get to end, after delaySeconds; then they are cut.", ge=0, le=86400)
    ] = 300
    delay_seconds: Annotated[
        int, Meta(description="How long clients get to notice, before the servers are asked.", ge=0, le=3600)
    ] = 5


class ModelDeploymentSpec(Struct, frozen=True, rename="camel"):
    """A model: where its weights come from, and the pods that serve them."""

    model_name: Annotated[
        str,
        Meta(
            description="The name under which clients ask for the model.",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$",
            min_length=1,
            max_length=253,
        ),
    ]
    model_source: Annotated[
        str,
        Meta(
            description="Where the weights are: huggingface://org/repo[@rev][/file] (also hf://, or org/repo), "
            "s3://bucket/prefix, https://host/file, or pvc://claim/path.",
            pattern=r"^[^\s]+( +[^\s]+)*$",
            min_length=1,
            max_length=2048,
        ),
    ]
    revision: Annotated[
        str,
        Meta(
            description="A branch, tag or commit of a repository of the hub. Left out: main, or what follows the @.",
            pattern=r"^([A-Za-z0-9][A-Za-z0-9._/-]*)?$",
            max_length=255,
        ),
    ] = ""
    source_secret_ref: Annotated[
        SourceSecret | None,
        Meta(description="A Secret that becomes the environment of the downloader: HF_TOKEN, AWS_ACCESS_KEY_ID ..."),
    ] = None
    checksums: Annotated[
        dict[str, Hash],
        Meta(description="What files must hash to: a file name, and its sha256 in hexadecimal.", max_length=512),
    ] = {}
    engine: Annotated[Literal["vllm", "llamacpp", "tgi"], Meta(description="The inference server.")] = "vllm"
    gpus: Annotated[int, Meta(description="NVIDIA GPUs of each pod. 0: the pods ask for none.", ge=0, le=64)] = 0
    replicas: Annotated[
        int, Meta(description="How many pods. With autoScaling: how many to start with; 0 for none.", ge=0, le=1000)
    ] = 1
    auto_scaling: Annotated[bool, Meta(description="Let the number of pods follow the load.")] = False
    autoscaling: Annotated[
        Autoscaling | None, Meta(description="How it follows the load. Needs autoScaling: true.")
    ] = None
    storage: Annotated[WeightsStorage, Meta(description="Where the weights are kept.")] = WeightsStorage()
    download: Annotated[Download, Meta(description="How the weights are fetched.")] = Download()
    deprecated: Annotated[
        bool, Meta(description="Take the model out of service: drain it, stop it, and delete what it needs.")
    ] = False
    drain: Annotated[DrainSettings, Meta(description="How requests in progress are treated then.")] = DrainSettings()
    image: Annotated[Image, Meta(description="The image. Left out: that of the engine.")] = ""
    args: Annotated[tuple[str, ...], Meta(description="Further arguments of the server.", max_length=256)] = ()
    env: Annotated[
        tuple[EnvVar, ...], Meta(description="Environment of the server; it wins over ours.", max_length=256)
    ] = ()
    resources: Annotated[
        ResourceRequirements | None, Meta(description="CPU and memory. Requests left out are 100m and 128Mi.")
    ] = None
    node_selector: Annotated[Labels, Meta(description="Labels of the nodes that the pods may use.", max_length=64)] = {}
    tolerations: Annotated[
        tuple[Toleration, ...],
        Meta(description="Taints that the pods tolerate, besides that of GPU nodes.", max_length=32),
    ] = ()
    port: Annotated[int, Meta(description="The port of the server and of its Service.", ge=1024, le=65535)] = 8000


class Phase(StrEnum):
    """One word for the state. `phases` decides it."""

    PENDING = "Pending"
    DOWNLOADING = "Downloading"
    DEPLOYING = "Deploying"
    RUNNING = "Running"
    FAILED = "Failed"
    DRAINING = "Draining"
    DECOMMISSIONED = "Decommissioned"


class DownloadProgress(Struct, frozen=True, rename="camel"):
    """How far the download is, at most ten seconds ago."""

    bytes: Annotated[int, Meta(description="How many bytes are there.")] = 0
    total_bytes: Annotated[int | None, Meta(description="How many there will be. Absent: the source does not say.")] = (
        None
    )
    bytes_per_second: Annotated[int, Meta(description="How fast they come.")] = 0
    seconds_left: Annotated[int | None, Meta(description="How long it will take at this speed. Absent: unknown.")] = (
        None
    )
    text: Annotated[str, Meta(description="All of this in words.")] = ""


class VerifiedWeights(Struct, frozen=True, rename="camel"):
    """Weights that are complete on a claim, and verified."""

    key: Annotated[str, Meta(description="A hash of source, revision and checksums.")] = ""
    source: Annotated[str, Meta(description="Where they came from.")] = ""
    claim: Annotated[str, Meta(description="The claim that holds them.")] = ""
    claim_uid: Annotated[str, Meta(description="Its UID: a new claim of the same name is empty.")] = ""


class ModelDeploymentStatus(Struct, frozen=True, rename="camel"):
    """What is true of a ModelDeployment."""

    phase: Annotated[Phase, Meta(description="One word for the state.")] = Phase.PENDING
    endpoint: Annotated[str, Meta(description="Where the model is reached from within the cluster.")] = ""
    ready_pods: Annotated[int, Meta(description="How many pods are ready, of whatever weights.")] = 0
    replicas: Annotated[int, Meta(description="How many pods there should be now.")] = 0
    selector: Annotated[str, Meta(description="The label selector of the pods, for kubectl scale.")] = ""
    served_source: Annotated[str, Meta(description="Where the weights came from that the pods serve.")] = ""
    served_names: Annotated[
        tuple[str, ...], Meta(description="The names that the pods take for the model that they serve.")
    ] = ()
    download: Annotated[DownloadProgress | None, Meta(description="How far the download is. Absent: none runs.")] = None
    weights: Annotated[
        VerifiedWeights | None, Meta(description="The weights that were verified last. Absent: none are there.")
    ] = None
    failed_attempt: Annotated[
        str, Meta(description="Which try failed for good. Another spec, Secret, annotation or volume is another try.")
    ] = ""
    drain_started_at: Annotated[
        str | None, Meta(description="When the drain began.", extra_json_schema={"format": "date-time"})
    ] = None
    drain_result: Annotated[
        Literal["Idle", "TimedOut"] | None, Meta(description="How the drain ended. Absent: it has not.")
    ] = None
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[
        Conditions, Meta(description="WeightsPresent, Available (pods), Progressing, Drained, and Ready (all of it).")
    ] = ()


COLUMNS = (
    Column("PHASE", "string", ".status.phase"),
    Column("READY", "integer", ".status.readyPods"),
    Column("PROGRESS", "string", ".status.download.text"),
    Column("ENDPOINT", "string", ".status.endpoint"),
    Column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("SOURCE", "string", ".spec.modelSource", wide=True),
)
