"""The values of the Helm chart as types, from which `make generate` writes values.schema.json.

values.yaml has the defaults and says what each value is for; a test holds the two against each other. What is
inside of objects of Kubernetes is left to the API server to judge, which drops fields that it does not know.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec
from msgspec import Meta, Struct
from typer.core import TyperOption

from modelyard.cli.run import run
from modelyard.cli.verbs import command
from modelyard.core.pod_fields import IMAGE_REPOSITORY, IMAGE_TAG, Annotations, LabelKey, Labels, ObjectName
from modelyard.core.quantities import AMOUNT_PATTERN, DURATION_PATTERN
from modelyard.engines import ENGINES
from modelyard.kinds.model.api import EXTENDED_RESOURCE
from modelyard.manifests import operator, page

Json = dict[str, Any]

_NAME: Final = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"
# As `modelyard page --url` takes them: tokens need TLS, but for a port that is forwarded to this machine.
_URL: Final = r"^(https://[^/\s@]+|http://(localhost|127\.0\.0\.1)(:[0-9]+)?)$"
_ELSEWHERE: Final = frozenset(
    {
        "namespace", "door", "init-container-image",  # values of their own
        "lease-namespace", "identity", "health-port", "metrics-port",  # the chart states them
        "sees-node-files", "pod-network",  # not for clusters
    }
)  # fmt: skip
_HOST: Final = r"[^\s,/]+(/[0-9]{1,3})?"
_HOSTS: Final = rf"^({_HOST}(\s*,\s*{_HOST})*)?$"
_ENGINE_IMAGE: Final = rf"({'|'.join(sorted(ENGINES))})=[^\s,]+"
_PATTERNS: Final = {
    "allowed-host-path-roots": r"^(/[^,]*(,\s*/[^,]*)*)?$",
    "allowed-remote-hosts": _HOSTS,
    "host-networks": _HOSTS,
    "intel-gpu-resource": EXTENDED_RESOURCE,
    "log-format": r"^(json|text)$",
    "log-level": r"^(?i:debug|info|warn|warning|error|critical)$",
    "model-cache-path": r"^(/[^,]*[^,/][^,]*)?$",
    "model-cache-size": r"^(0*[1-9][0-9]*(\.[0-9]*)?|0*\.[0-9]*[1-9][0-9]*)([KMGTPE]i|[kMGTPE]|[eE][0-9]{1,2})?$",
    "model-revalidate-interval": DURATION_PATTERN,
    "runtime-images": rf"^({_ENGINE_IMAGE}(,\s*{_ENGINE_IMAGE})*)?$",
}
"""What flags take, as far as a pattern can tell: with any other value the operator would end as it starts."""
# By the first three the Deployment finds its pods, by the last one the operator finds its children.
_TAKEN: Final = tuple(f"app.kubernetes.io/{name}" for name in ("component", "instance", "name", "managed-by"))


_Amount = Annotated[str, Meta(pattern=AMOUNT_PATTERN)] | int | float


class _Value(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class PullSecret(_Value, frozen=True):
    """A Secret with the credentials of a registry."""

    name: str


class Image(_Value, frozen=True):
    """The image of the operator, and of the containers that fetch weights."""

    repository: Annotated[str, Meta(pattern=IMAGE_REPOSITORY)] = "ghcr.io/modelyard/modelyard"
    tag: Annotated[str, Meta(pattern=IMAGE_TAG)] = ""
    digest: Annotated[str, Meta(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    pull_secrets: tuple[PullSecret, ...] = ()


class ServiceAccount(_Value, frozen=True):
    """The account that the operator acts as."""

    create: bool = True
    name: Annotated[str, Meta(pattern=_NAME)] = ""
    annotations: Annotations = {}


class Rbac(_Value, frozen=True):
    """Whether the chart grants the rights."""

    create: bool = True


class Kept(_Value, frozen=True):
    """Objects that others depend on."""

    install: bool = True
    keep: bool = True


class PodMonitor(_Value, frozen=True):
    """How Prometheus finds the metrics of the operator."""

    enabled: bool = False
    interval: Annotated[str, Meta(pattern=r"^[1-9][0-9]*(ms|s|m|h)$")] = "30s"
    labels: Labels = {}


class PrometheusRule(_Value, frozen=True):
    """Alerts."""

    enabled: bool = False
    labels: Labels = {}


class Dashboards(_Value, frozen=True):
    """Dashboards for Grafana."""

    enabled: bool = False
    labels: Labels = msgspec.field(default_factory=lambda: {"grafana_dashboard": "1"})
    annotations: Annotations = {}


class Peer(_Value, frozen=True, omit_defaults=True):
    """What may connect. A field that is dropped would let more in."""

    ip_block: Json = {}
    namespace_selector: Json = {}
    pod_selector: Json = {}


class NetworkPolicy(_Value, frozen=True):
    """Which connections reach the operator."""

    enabled: bool = False
    metrics_from: tuple[Peer, ...] = ()
    page_from: tuple[Peer, ...] = ()


class Toleration(_Value, frozen=True, omit_defaults=True):
    """A taint that does not keep pods away."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    toleration_seconds: int = 0


class Affinity(_Value, frozen=True, omit_defaults=True):
    """Which nodes pods prefer."""

    node_affinity: Json = {}
    pod_affinity: Json = {}
    pod_anti_affinity: Json = {}


class EnvVar(_Value, frozen=True):
    """A variable of the operator."""

    name: Annotated[str, Meta(min_length=1)]
    value: str = ""
    value_from: Json = {}


class Resources(_Value, frozen=True, omit_defaults=True):
    """What a container gets of its node."""

    limits: dict[LabelKey, _Amount] = {}
    requests: dict[LabelKey, _Amount] = {}
    claims: tuple[Json, ...] = ()


def _resources(deployment: Json) -> Resources:
    return msgspec.convert(deployment["spec"]["template"]["spec"]["containers"][0]["resources"], Resources)


class Page(_Value, frozen=True):
    """The page for browsers."""

    enabled: bool = False
    urls: tuple[Annotated[str, Meta(pattern=_URL)], ...] = ()
    edit: bool = False
    resources: Resources = msgspec.field(default_factory=lambda: _resources(page.deployment()))


class Values(_Value, frozen=True):
    """The values of the chart."""

    image: Image = Image()
    replicas: Annotated[int, Meta(ge=0)] = 2
    namespace: Annotated[str, Meta(pattern=_NAME, max_length=63)] = ""
    door: bool = False
    settings: Json = {}
    env: tuple[EnvVar, ...] = ()
    resources: Resources = msgspec.field(default_factory=lambda: _resources(operator.deployment()))
    pod_annotations: Annotations = {}
    pod_labels: Labels = {}
    node_selector: Labels = {}
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity = Affinity()
    priority_class_name: ObjectName = ""
    service_account: ServiceAccount = ServiceAccount()
    rbac: Rbac = Rbac()
    crds: Kept = Kept()
    priority_classes: Kept = Kept()
    page: Page = Page()
    pod_monitor: PodMonitor = PodMonitor()
    prometheus_rule: PrometheusRule = PrometheusRule()
    dashboards: Dashboards = Dashboards()
    network_policy: NetworkPolicy = NetworkPolicy()
    global_: Json = msgspec.field(default_factory=dict, name="global")


def schema() -> str:
    """Return values.schema.json: what Helm refuses before it asks the cluster."""
    body = msgspec.json.schema(Values)
    properties = body["$defs"]["Values"]["properties"]
    properties["settings"] = _settings()
    properties["podLabels"]["properties"] = dict.fromkeys(_TAKEN, False)
    body = {"$schema": "http://json-schema.org/draft-07/schema#", **body}
    return msgspec.json.format(msgspec.json.encode(body, order="sorted"), indent=2).decode() + "\n"


def _settings() -> Json:
    types = get_type_hints(run)
    options = command("run").params
    flags = {option.opts[0].removeprefix("--"): option for option in options if isinstance(option, TyperOption)}
    wanted = {flag: option for flag, option in flags.items() if flag not in _ELSEWHERE}
    known = {flag: _setting(flag, types[option.name or ""], option.help) for flag, option in wanted.items()}
    return {"type": "object", "additionalProperties": False, "properties": known}


def _setting(flag: str, kind: Any, text: str | None) -> Json:
    if pattern := _PATTERNS.get(flag):
        return {"type": "string", "pattern": pattern, "description": text}
    schema = msgspec.json.schema(kind)
    # An enum is a definition of its own there, which would need a name here.
    return next(iter(schema.get("$defs", {}).values()), schema) | {"description": text}
