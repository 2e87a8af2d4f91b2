"""The parts of a pod that a node acts on, typed. The API server has checked and defaulted them already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct, field

if TYPE_CHECKING:
    from modelyard.core.objects import Stored

Amount = str | int


class _Part(Struct, frozen=True, rename="camel"):
    """A part of a pod, spelled as manifests spell it."""


class KeyRef(_Part, frozen=True):
    """One key of a Secret or ConfigMap."""

    key: str
    name: str = ""
    optional: bool = False


class FieldRef(_Part, frozen=True):
    """A field of the pod itself."""

    field_path: str


class ResourceRef(_Part, frozen=True):
    """An amount that a container requests or is limited to."""

    resource: str
    container_name: str = ""
    divisor: Amount = "0"


class ValueFrom(_Part, frozen=True):
    """Where the value of a variable comes from."""

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
    """A whole Secret or ConfigMap."""

    name: str = ""
    optional: bool = False


class EnvFrom(_Part, frozen=True):
    """Environment variables from all keys of a Secret or ConfigMap."""

    prefix: str = ""
    secret_ref: SourceRef | None = None
    config_map_ref: SourceRef | None = None


class Mount(_Part, frozen=True):
    """A volume, and where a container sees it."""

    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class Header(_Part, frozen=True):
    """One header of a request."""

    name: str
    value: str = ""


class HttpGet(_Part, frozen=True):
    """Ask a path; any answer from 200 to 399 is good."""

    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[Header, ...] = ()


class TcpSocket(_Part, frozen=True):
    """Ask whether something listens."""

    port: int | str
    host: str = ""


class Exec(_Part, frozen=True):
    """Run a command; code 0 is good."""

    command: tuple[str, ...] = ()


class Sleep(_Part, frozen=True):
    """Wait."""

    seconds: int


class Action(_Part, frozen=True):
    """What a probe or a hook does: exactly one of these."""

    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    exec: Exec | None = None
    grpc: TcpSocket | None = None
    sleep: Sleep | None = None


class Probe(Action, frozen=True):
    """A question that is asked again and again."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Lifecycle(_Part, frozen=True):
    """What to do at turning points of a container's life."""

    post_start: Action | None = None
    pre_stop: Action | None = None


class Port(_Part, frozen=True):
    """A port that a container listens on."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"


class Resources(_Part, frozen=True):
    """What a container asks for and may use."""

    limits: dict[str, Amount] = {}
    requests: dict[str, Amount] = {}


class Container(_Part, frozen=True):
    """One container."""

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
        """Whether this init container goes on beside the containers of the pod."""
        return self.restart_policy == "Always"


class Item(_Part, frozen=True):
    """One file of a volume: which key or field it holds, and its path."""

    path: str
    key: str = ""
    mode: int | None = None
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceRef | None = None


class KeysSource(_Part, frozen=True):
    """Files with the content of a Secret or ConfigMap."""

    name: str = ""
    secret_name: str = ""
    items: tuple[Item, ...] = ()
    optional: bool = False
    default_mode: int | None = None


class DownwardSource(_Part, frozen=True):
    """Files with fields of the pod."""

    items: tuple[Item, ...] = ()
    default_mode: int | None = None


class TokenSource(_Part, frozen=True):
    """A file with a token of the pod's service account."""

    path: str
    audience: str = ""
    expiration_seconds: int = 3600


class Projection(_Part, frozen=True):
    """One source of a projected volume."""

    secret: KeysSource | None = None
    config_map: KeysSource | None = None
    downward_api: DownwardSource | None = field(default=None, name="downwardAPI")
    service_account_token: TokenSource | None = None


class ProjectedSource(_Part, frozen=True):
    """Files from several sources in one folder."""

    sources: tuple[Projection, ...] = ()
    default_mode: int | None = None


class ClaimSource(_Part, frozen=True):
    """The volume that a claim is bound to."""

    claim_name: str
    read_only: bool = False


class HostPath(_Part, frozen=True):
    """A path of this machine."""

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
    """A condition that somebody else must set before the pod counts as ready."""

    condition_type: str


class PodSpec(_Part, frozen=True):
    """What a pod runs."""

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: Literal["Always", "OnFailure", "Never"] = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    node_name: str = ""
    service_account_name: str = "default"
    readiness_gates: tuple[Gate, ...] = ()

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that its containers say they listen on."""
        return tuple(port.container_port for container in self.containers for port in container.ports)


def pod_spec(pod: Stored) -> PodSpec:
    """Read what a stored pod is to run."""
    return msgspec.json.decode(pod.parts["spec"], type=PodSpec)
