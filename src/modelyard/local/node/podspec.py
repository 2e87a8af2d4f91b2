"""The fields of `Pod.spec` that a node acts on, as frozen types named after those of the Kubernetes API.

Every room of the node reads them. The API server has validated and defaulted them; other fields are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct, field

if TYPE_CHECKING:
    from modelyard.core.objects import Stored

Amount = str | int


class _Part(Struct, frozen=True, rename="camel"):
    """A part of a pod spec; field names are in camel case, as in manifests."""


class KeyRef(_Part, frozen=True):
    """One key of a Secret or ConfigMap (SecretKeySelector, ConfigMapKeySelector)."""

    key: str
    name: str = ""
    optional: bool = False


class FieldRef(_Part, frozen=True):
    """A field of the pod itself (ObjectFieldSelector)."""

    field_path: str


class ResourceRef(_Part, frozen=True):
    """A request or limit of a container (ResourceFieldSelector)."""

    resource: str
    container_name: str = ""
    divisor: Amount = "0"


class ValueFrom(_Part, frozen=True):
    """Where the value of a variable comes from (EnvVarSource): exactly one of these."""

    secret_key_ref: KeyRef | None = None
    config_map_key_ref: KeyRef | None = None
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceRef | None = None


class EnvVar(_Part, frozen=True):
    """One environment variable."""

    name: str
    value: str = ""
    value_from: ValueFrom | None = None


class SourceRef(_Part, frozen=True):
    """A whole Secret or ConfigMap (SecretEnvSource, ConfigMapEnvSource)."""

    name: str = ""
    optional: bool = False


class EnvFrom(_Part, frozen=True):
    """Environment variables from all keys of a Secret or ConfigMap (EnvFromSource)."""

    prefix: str = ""
    secret_ref: SourceRef | None = None
    config_map_ref: SourceRef | None = None


class Mount(_Part, frozen=True):
    """A volume and the path at which a container sees it (VolumeMount)."""

    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class Header(_Part, frozen=True):
    """One header of a probe's HTTP request (HTTPHeader)."""

    name: str
    value: str = ""


class HttpGet(_Part, frozen=True):
    """An HTTP GET (HTTPGetAction); a status from 200 to 399 is a success."""

    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[Header, ...] = ()


class TcpSocket(_Part, frozen=True):
    """A TCP connect (TCPSocketAction, GRPCAction); an open connection is a success."""

    port: int | str
    host: str = ""


class Exec(_Part, frozen=True):
    """A command in the container (ExecAction); exit code 0 is a success."""

    command: tuple[str, ...] = ()


class Sleep(_Part, frozen=True):
    """A pause, for lifecycle hooks (SleepAction)."""

    seconds: int


class Action(_Part, frozen=True):
    """What a probe or a lifecycle hook does (ProbeHandler, LifecycleHandler): exactly one of these."""

    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    exec: Exec | None = None
    grpc: TcpSocket | None = None
    sleep: Sleep | None = None


class Probe(Action, frozen=True):
    """A startup, liveness or readiness probe: a handler, and when its result counts."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Lifecycle(_Part, frozen=True):
    """The hooks of a container: right after its start, and before it is stopped."""

    post_start: Action | None = None
    pre_stop: Action | None = None


class Port(_Part, frozen=True):
    """A port that a container says it listens on (ContainerPort)."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"


class Resources(_Part, frozen=True):
    """The requests and limits of a container (ResourceRequirements)."""

    limits: dict[str, Amount] = {}
    requests: dict[str, Amount] = {}


class Container(_Part, frozen=True):
    """One container or init container of a pod."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    ports: tuple[Port, ...] = ()
    resources: Resources = Resources()
    volume_mounts: tuple[Mount, ...] = ()
    startup_probe: Probe | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    lifecycle: Lifecycle = Lifecycle()
    restart_policy: str = ""
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: Literal["File", "FallbackToLogsOnError"] = "File"

    @property
    def is_sidecar(self) -> bool:
        """Whether this init container is a sidecar: it runs on beside the containers of the pod."""
        return self.restart_policy == "Always"


class Item(_Part, frozen=True):
    """One file of a volume: the key or field it holds, and its path (KeyToPath, DownwardAPIVolumeFile)."""

    path: str
    key: str = ""
    mode: int | None = None
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceRef | None = None


class KeysSource(_Part, frozen=True):
    """A Secret or ConfigMap as files; a volume calls the first `secretName`, a projection `name`."""

    name: str = ""
    secret_name: str = ""
    items: tuple[Item, ...] = ()
    optional: bool = False
    default_mode: int | None = None


class DownwardSource(_Part, frozen=True):
    """Fields of the pod as files (DownwardAPIVolumeSource)."""

    items: tuple[Item, ...] = ()
    default_mode: int | None = None


class TokenSource(_Part, frozen=True):
    """A token of the pod's service account as a file (ServiceAccountTokenProjection)."""

    path: str
    audience: str = ""
    expiration_seconds: int = 3600


class Projection(_Part, frozen=True):
    """One source of a projected volume (VolumeProjection): exactly one of these."""

    secret: KeysSource | None = None
    config_map: KeysSource | None = None
    downward_api: DownwardSource | None = field(default=None, name="downwardAPI")
    service_account_token: TokenSource | None = None


class ProjectedSource(_Part, frozen=True):
    """Files from several sources in one folder (ProjectedVolumeSource)."""

    sources: tuple[Projection, ...] = ()
    default_mode: int | None = None


class ClaimSource(_Part, frozen=True):
    """The volume that a claim is bound to (PersistentVolumeClaimVolumeSource)."""

    claim_name: str
    read_only: bool = False


class HostPath(_Part, frozen=True):
    """A path of this machine (HostPathVolumeSource)."""

    path: str
    type: str = ""


class Volume(_Part, frozen=True):
    """A volume of a pod: exactly one source."""

    name: str
    empty_dir: dict[str, object] | None = None
    config_map: KeysSource | None = None
    secret: KeysSource | None = None
    projected: ProjectedSource | None = None
    downward_api: DownwardSource | None = field(default=None, name="downwardAPI")
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, object] | None = None
    host_path: HostPath | None = None


class Gate(_Part, frozen=True):
    """A condition that another controller must set before the pod counts as ready (PodReadinessGate)."""

    condition_type: str


class PodSpec(_Part, frozen=True):
    """The spec of a pod."""

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    """Those that `kubectl debug` adds to a pod that runs."""
    volumes: tuple[Volume, ...] = ()
    restart_policy: Literal["Always", "OnFailure", "Never"] = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    node_name: str = ""
    hostname: str = ""
    service_account_name: str = "default"
    readiness_gates: tuple[Gate, ...] = ()

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that the containers of the pod say they listen on; init containers are left out."""
        return tuple(port.container_port for container in self.containers for port in container.ports)


def pod_spec(pod: Stored) -> PodSpec:
    """Return the spec of a stored Pod."""
    return msgspec.json.decode(pod.parts["spec"], type=PodSpec)
