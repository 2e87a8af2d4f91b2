"""The catalogue of reasons: every condition and event that Modelyard writes has one of these.

`docs/reasons.md` explains each to users, and a test keeps the two lists equal. Clients match on them: never rename one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """The reason of a condition or an event. The value is what users see."""

    # All is well
    READY = "Ready"
    PODS_READY = "PodsReady"
    ANSWERED = "Answered"
    WORKLOAD_RESOLVED = "WorkloadResolved"
    RUNTIME_RESOLVED = "RuntimeResolved"
    METAL_AGENT_MANAGED = "MetalAgentManaged"
    PVC_MODEL_READY = "PVCModelReady"
    MODEL_PREFETCHED = "ModelPrefetched"
    IN_SYNC = "InSync"
    ALL_FIELDS_USED = "AllFieldsUsed"
    CONFIG_VALID = "ConfigValid"
    INFERENCE_READY = "InferenceReady"
    SUFFICIENT_GPU = "SufficientGPU"
    MODEL_TRANSFER_SUCCEEDED = "ModelTransferSucceeded"
    WEIGHTS_LOADED = "WeightsLoaded"
    PROMOTED = "Promoted"
    ROUTE_ACCEPTED = "RouteAccepted"
    AGENTS_DISCOVERED = "AgentsDiscovered"
    MCPS_DISCOVERED = "MCPsDiscovered"
    PLACED = "Placed"
    NORMAL = "Normal"

    # On the way
    STARTING = "Starting"
    CREATING = "Creating"
    DOWNLOADING = "Downloading"
    STOPPING = "Stopping"
    NO_READY_REPLICAS = "NoReadyReplicas"
    WAITING_FOR_GPU = "WaitingForGPU"
    INSUFFICIENT_GPU = "InsufficientGPU"
    WAITING_FOR_METAL_AGENT = "WaitingForMetalAgent"
    ROLLING_OUT = "RollingOut"
    WAITING_FOR_PODS = "WaitingForPods"
    WAITING_FOR_ANSWER = "WaitingForAnswer"
    WAITING_FOR_ROUTERS = "WaitingForRouters"
    WAITING_FOR_GATEWAY = "WaitingForGateway"
    WAITING_FOR_MODEL = "WaitingForModel"
    WAITING_FOR_CLEANUP = "WaitingForCleanup"
    REFERENCE_NOT_READY = "ReferenceNotReady"
    DRAINING = "Draining"
    DRAINED = "Drained"
    DECOMMISSIONED = "Decommissioned"
    SCALED_TO_ZERO = "ScaledToZero"
    MANUALLY_SCALED_TO_ZERO = "ManuallyScaledToZero"
    PAUSED = "Paused"
    PREFETCH_RUNNING = "PrefetchRunning"
    PVC_NOT_BOUND = "PVCNotBound"
    NOT_REPORTED = "NotReported"
    NOT_COMPARED = "NotCompared"
    LOADING = "Loading"
    UNLOADING = "Unloading"
    CORDONED = "Cordoned"

    # The user has to act
    INVALID_SPEC = "InvalidSpec"
    NOTHING_TO_RUN = "NothingToRun"
    REFERENCE_NOT_FOUND = "ReferenceNotFound"
    REFERENCE_UNFIT = "ReferenceUnfit"
    ROUTING_INVALID = "RoutingInvalid"
    CONFIG_MAP_NOT_FOUND = "ConfigMapNotFound"
    CONFIG_MAP_KEY_MISSING = "ConfigMapKeyMissing"
    MODEL_NOT_FOUND = "ModelNotFound"
    MODEL_INVALID = "ModelInvalid"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a reason, not a password
    SECRET_KEY_MISSING = "SecretKeyMissing"  # noqa: S105 - a reason, not a password
    TOKEN_IN_USE = "TokenInUse"  # noqa: S105 - a reason, not a password
    CHANNELS_AND_RECEIVER_ENABLED = "ChannelsAndReceiverEnabled"
    NAME_CONFLICT = "NameConflict"
    CHILD_REFUSED = "ChildRefused"
    FIELD_NOT_KEPT = "FieldNotKept"
    FIELD_CONTESTED = "FieldContested"
    FIELD_IGNORED = "FieldIgnored"
    SOURCE_NOT_ALLOWED = "SourceNotAllowed"
    SOURCE_UNFIT = "SourceUnfit"
    PVC_NOT_FOUND = "PVCNotFound"
    PVC_LOST = "PVCLost"
    PREFETCH_FAILED = "PrefetchFailed"
    DOWNLOAD_FAILED = "DownloadFailed"
    DRAIN_TIMED_OUT = "DrainTimedOut"
    UPSTREAM_CHANGED = "UpstreamChanged"
    SPECULATIVE_MISSING_MODEL = "SpeculativeMissingModel"
    MISSING_MEMORY_REQUEST = "MissingMemoryRequest"
    AUTOSCALER_STUCK = "AutoscalerStuck"
    CANARY_DEGRADED = "CanaryDegraded"
    ROLLED_BACK = "RolledBack"
    GATEWAY_API_NOT_INSTALLED = "GatewayAPINotInstalled"
    ROUTE_NOT_ACCEPTED = "RouteNotAccepted"
    FORBIDDEN = "Forbidden"
    INSUFFICIENT_HOSTS = "InsufficientHosts"
    INSUFFICIENT_MEMORY = "InsufficientMemory"
    DRAIN_BLOCKED = "DrainBlocked"
    ADDRESS_NOT_ROUTABLE = "AddressNotRoutable"
    DUPLICATE_ENDPOINT = "DuplicateEndpoint"

    # Pods fail
    CRASH_LOOP = "CrashLoop"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_CONFIG_INVALID = "ContainerConfigInvalid"
    OUT_OF_MEMORY = "OutOfMemory"
    UNSCHEDULABLE = "Unschedulable"
    PODS_REFUSED = "PodsRefused"
    ROLLOUT_STUCK = "RolloutStuck"
    PRIORITY_CLASS_NOT_FOUND = "PriorityClassNotFound"
    PREEMPTED = "Preempted"
    NODE_NOT_READY = "NodeNotReady"
    PODS_FAILING = "PodsFailing"

    # Weights could not be fetched
    MODEL_SOURCE_INVALID = "ModelSourceInvalid"
    MODEL_SOURCE_UNAUTHORIZED = "ModelSourceUnauthorized"
    MODEL_SOURCE_NOT_FOUND = "ModelSourceNotFound"
    MODEL_SOURCE_UNTRUSTED = "ModelSourceUntrusted"
    MODEL_SOURCE_REFUSED = "ModelSourceRefused"
    MODEL_SOURCE_UNREACHABLE = "ModelSourceUnreachable"
    MODEL_CHECKSUM_MISMATCH = "ModelChecksumMismatch"
    MODEL_TRANSFER_OUT_OF_SPACE = "ModelTransferOutOfSpace"
    MODEL_VOLUME_NOT_WRITABLE = "ModelVolumeNotWritable"

    # The server does not answer as it should
    UNAUTHORIZED = "Unauthorized"
    NO_ANSWER = "NoAnswer"
    BAD_ANSWER = "BadAnswer"
    PROVIDER_FAILING = "ProviderFailing"
    LOAD_FAILED = "LoadFailed"
    ALL_HOSTS_UNREACHABLE = "AllHostsUnreachable"
    WARNING = "Warning"
    CRITICAL = "Critical"
    EVICTED = "Evicted"

    # The source of weights could not be checked
    UPSTREAM_UNREACHABLE = "UpstreamUnreachable"
    UPSTREAM_REFUSED = "UpstreamRefused"
    UPSTREAM_NOT_FOUND = "UpstreamNotFound"
    ADDRESS_NOT_ALLOWED = "AddressNotAllowed"

    # Events
    RECOVERED = "Recovered"
    RESTORED = "Restored"
    FINALIZER_SKIPPED = "FinalizerSkipped"
    STATUS_REFUSED = "StatusRefused"

    # The cluster fails, or we do
    API_UNAVAILABLE = "ApiUnavailable"
    INTERNAL_ERROR = "InternalError"


PROBLEMS: Final = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.NOTHING_TO_RUN,
        Reason.REFERENCE_NOT_FOUND,
        Reason.REFERENCE_UNFIT,
        Reason.ROUTING_INVALID,
        Reason.CONFIG_MAP_NOT_FOUND,
        Reason.CONFIG_MAP_KEY_MISSING,
        Reason.MODEL_INVALID,
        Reason.MODEL_NOT_FOUND,
        Reason.SECRET_NOT_FOUND,
        Reason.SECRET_KEY_MISSING,
        Reason.TOKEN_IN_USE,
        Reason.NAME_CONFLICT,
        Reason.CHILD_REFUSED,
        Reason.FIELD_NOT_KEPT,
        Reason.FIELD_CONTESTED,
        Reason.SOURCE_NOT_ALLOWED,
        Reason.SOURCE_UNFIT,
        Reason.PVC_NOT_FOUND,
        Reason.PVC_LOST,
        Reason.PREFETCH_FAILED,
        Reason.DOWNLOAD_FAILED,
        Reason.DRAIN_TIMED_OUT,
        Reason.FORBIDDEN,
        Reason.CANARY_DEGRADED,
        Reason.ROLLED_BACK,
        Reason.GATEWAY_API_NOT_INSTALLED,
        Reason.ROUTE_NOT_ACCEPTED,
        Reason.CRASH_LOOP,
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_CONFIG_INVALID,
        Reason.OUT_OF_MEMORY,
        Reason.UNSCHEDULABLE,
        Reason.PODS_REFUSED,
        Reason.ROLLOUT_STUCK,
        Reason.PRIORITY_CLASS_NOT_FOUND,
        Reason.PREEMPTED,
        Reason.NODE_NOT_READY,
        Reason.PODS_FAILING,
        Reason.MODEL_SOURCE_INVALID,
        Reason.MODEL_SOURCE_UNAUTHORIZED,
        Reason.MODEL_SOURCE_NOT_FOUND,
        Reason.MODEL_SOURCE_UNTRUSTED,
        Reason.MODEL_SOURCE_REFUSED,
        Reason.MODEL_SOURCE_UNREACHABLE,
        Reason.MODEL_CHECKSUM_MISMATCH,
        Reason.MODEL_TRANSFER_OUT_OF_SPACE,
        Reason.MODEL_VOLUME_NOT_WRITABLE,
        Reason.UNAUTHORIZED,
        Reason.NO_ANSWER,
        Reason.BAD_ANSWER,
        Reason.PROVIDER_FAILING,
        Reason.INSUFFICIENT_HOSTS,
        Reason.INSUFFICIENT_MEMORY,
        Reason.DRAIN_BLOCKED,
        Reason.ADDRESS_NOT_ROUTABLE,
        Reason.DUPLICATE_ENDPOINT,
        Reason.LOAD_FAILED,
        Reason.ALL_HOSTS_UNREACHABLE,
        Reason.EVICTED,
        Reason.FINALIZER_SKIPPED,
        Reason.STATUS_REFUSED,
        Reason.INTERNAL_ERROR,
    }
)
"""Reasons that need attention: a condition that turns to one of these is also a warning event."""
