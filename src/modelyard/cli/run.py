"""`modelyard run`: the operator."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from modelyard.cli import policy
from modelyard.cli.logging_setup import LogFormat, LogLevel, configure_logging
from modelyard.core.policy import REVALIDATE, Policy
from modelyard.core.quantities import seconds
from modelyard.core.resources import Key
from modelyard.manifests.operator import HEALTH_PORT, METRICS_PORT
from modelyard.manifests.rbac import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEASE = "modelyard"
_DEFAULT = Policy()
_TRUE: Final = frozenset({"1", "t", "true", "y", "yes", "on"})
_OF_POLICY: Final = frozenset({*Policy.__struct_fields__, "revalidate"})
"""The parameters of `run` that state the policy. The others are about the process itself."""

Namespace = Annotated[
    str, typer.Option(envvar="MODELYARD_NAMESPACE", help="The only namespace to look at. Left out: all of them.")
]
LeaseNamespace = Annotated[
    str, typer.Option(envvar="POD_NAMESPACE", help="Where the Lease of the leader election is kept.")
]
Identity = Annotated[str, typer.Option(envvar="POD_NAME", help="Who this replica is in the leader election.")]
HealthPort = Annotated[int, typer.Option(min=0, max=65535, help="Port of /healthz and /readyz; 0: none.")]
PodNetwork = Annotated[
    str, typer.Option(help="SHOWN=REAL: where pods listen whose addresses are routed nowhere, as on one machine.")
]
MetricsPort = Annotated[int, typer.Option(min=0, max=65535, help="Port of /metrics; 0: none.")]
EngineMetrics = Annotated[
    bool,
    typer.Option(
        "--engine-metrics",
        envvar="MODELYARD_ENGINE_METRICS",
        help="Read the metrics of engines, and show them as modelyard_engine_*.",
    ),
]


def run(
    namespace: Namespace = "",
    lease_namespace: LeaseNamespace = NAMESPACE,
    identity: Identity = "",
    health_port: HealthPort = HEALTH_PORT,
    metrics_port: MetricsPort = METRICS_PORT,
    engine_metrics: EngineMetrics = False,
    log_level: LogLevel = "info",
    log_format: LogFormat = "json",
    cache_path: policy.CachePath = _DEFAULT.cache_path,
    cache_size: policy.CacheSize = _DEFAULT.cache_size,
    cache_class: policy.CacheClass = _DEFAULT.cache_class,
    cache_access: policy.CacheAccess = _DEFAULT.cache_access,
    cache_mode: policy.CacheSharing = _DEFAULT.cache_mode,
    revalidate: policy.Revalidate = REVALIDATE,
    ca_configmap: policy.CaConfigMap = _DEFAULT.ca_configmap,
    fetch_image: policy.FetchImage = _DEFAULT.fetch_image,
    fs_group: policy.FsGroup = _DEFAULT.fs_group,
    images: policy.EngineImages = "",
    local_roots: policy.LocalRoots = "",
    sees_node_files: policy.SeesNodeFiles = _DEFAULT.sees_node_files,
    remote_hosts: policy.RemoteHosts = "",
    host_networks: policy.HostNetworks = None,
    intel_gpu_resource: policy.IntelResource = _DEFAULT.intel_gpu_resource,
    door: policy.Door = _DEFAULT.door,
    pod_network: PodNetwork = "",
) -> None:
    """Run the operator. The cluster is taken from KUBECONFIG, or is the one this runs in."""
    # `read_policy` needs the flags alone, and none of this.
    from modelyard import app  # noqa: PLC0415
    from modelyard.kube import config  # noqa: PLC0415
    from modelyard.net.pod_network import through  # noqa: PLC0415
    from modelyard.runtime.manager import Settings  # noqa: PLC0415

    configure_logging(log_level, log_format)
    chosen = chosen_policy(
        cache_path=cache_path,
        cache_size=cache_size,
        cache_class=cache_class,
        cache_access=cache_access,
        cache_mode=cache_mode,
        revalidate=revalidate,
        ca_configmap=ca_configmap,
        fetch_image=fetch_image,
        fs_group=fs_group,
        images=images,
        local_roots=local_roots,
        sees_node_files=sees_node_files,
        remote_hosts=remote_hosts,
        host_networks=host_networks,
        intel_gpu_resource=intel_gpu_resource,
        namespace=namespace,
        door=door,
    )
    settings = Settings(
        lease=_lease(lease_namespace, namespace),
        identity=identity or f"{socket.gethostname()}-{os.getpid()}",
        namespace=namespace,
        health_port=health_port,
        metrics_port=metrics_port,
        engine_metrics=engine_metrics,
        policy=chosen,
    )
    app.run(settings, config.find(os.environ), locate=through(pod_network))


def _lease(kept_in: str, served: str) -> Key:
    """Return the Lease to hold. Operators that serve different namespaces do not exclude each other."""
    return Key(kept_in, f"{LEASE}-{served}" if served else LEASE)


def chosen_policy(
    *, revalidate: str, images: str, local_roots: str, remote_hosts: str, host_networks: str | None, **others: Any
) -> Policy:
    """Return the policy that the options of `modelyard run` state, by the names of its parameters."""
    return Policy(
        revalidate_seconds=seconds(revalidate),
        images=policy.images(images),
        local_roots=policy.roots(local_roots),
        remote_hosts=policy.hosts(remote_hosts),
        host_networks=None if host_networks is None else policy.hosts(host_networks),
        **others,
    )


def read_policy(arguments: Sequence[str], environment: Mapping[str, str]) -> Policy:
    """Return the policy of an operator that is started with this command line and this environment."""
    parser = typer.Typer(add_completion=False)
    parser.command()(run)
    command = typer.main.get_command(parser)
    # The parser itself would look for variables in our own environment.
    stated = [word for option in command.params for word in _stated(option, environment)]
    given = command.make_context("run", [*stated, *(word for word in arguments if word != "run")]).params
    return chosen_policy(**{name: value for name, value in given.items() if name in _OF_POLICY})


def _stated(option: Any, environment: Mapping[str, str]) -> list[str]:
    """Return the words that say what a variable of the environment says of an option; empty: it is not set."""
    value = environment.get(option.envvar or "", "")
    if not value:
        return []
    if getattr(option, "is_flag", False):
        return [option.opts[0]] if value.lower() in _TRUE else []
    return [f"{option.opts[0]}={value}"]
