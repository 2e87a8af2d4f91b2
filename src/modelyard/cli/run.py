"""`modelyard run`: the operator."""

from __future__ import annotations

import logging
import os
import socket
import sys
from typing import Annotated

import structlog
import typer

from modelyard import app
from modelyard.cli import policy
from modelyard.core.policy import Policy
from modelyard.core.quantities import seconds
from modelyard.core.resources import Key
from modelyard.kube import config
from modelyard.runtime.manager import Settings

LEASE = "modelyard"
_DEFAULT = Policy()


def run(
    namespace: Annotated[
        str, typer.Option(envvar="MODELYARD_NAMESPACE", help="The only namespace to look at. Left out: all of them.")
    ] = "",
    lease_namespace: Annotated[
        str, typer.Option(envvar="POD_NAMESPACE", help="Where the Lease of the leader election is kept.")
    ] = "modelyard-system",
    identity: Annotated[str, typer.Option(envvar="POD_NAME", help="Who this replica is in the leader election.")] = "",
    health_port: Annotated[int, typer.Option(help="Port of /healthz and /readyz; 0: none.")] = 8081,
    metrics_port: Annotated[int, typer.Option(help="Port of /metrics; 0: none.")] = 9090,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_format: Annotated[str, typer.Option(help="json, or text for people.")] = "json",
    cache_path: policy.CachePath = _DEFAULT.cache_path,
    cache_size: policy.CacheSize = _DEFAULT.cache_size,
    cache_class: policy.CacheClass = _DEFAULT.cache_class,
    cache_access: policy.CacheAccess = _DEFAULT.cache_access,
    cache_mode: policy.CacheSharing = _DEFAULT.cache_mode,
    revalidate: policy.Revalidate = "1h",
    ca_configmap: policy.CaConfigMap = _DEFAULT.ca_configmap,
    fetch_image: policy.FetchImage = _DEFAULT.fetch_image,
    fs_group: policy.FsGroup = _DEFAULT.fs_group,
    images: policy.EngineImages = "",
    local_roots: policy.LocalRoots = "",
    remote_hosts: policy.RemoteHosts = "",
    intel_gpu_resource: policy.IntelResource = _DEFAULT.intel_gpu_resource,
) -> None:
    """Run the operator. The cluster is taken from KUBECONFIG, or is the one this runs in."""
    configure_logs(log_level, log_format)
    settings = Settings(
        # Operators for different namespaces do not exclude each other.
        lease=Key(lease_namespace, f"{LEASE}-{namespace}" if namespace else LEASE),
        identity=identity or f"{socket.gethostname()}-{os.getpid()}",
        namespace=namespace,
        health_port=health_port,
        metrics_port=metrics_port,
        policy=Policy(
            cache_path=cache_path,
            cache_size=cache_size,
            cache_class=cache_class,
            cache_access=cache_access,
            cache_mode=cache_mode,
            revalidate_seconds=seconds(revalidate),
            ca_configmap=ca_configmap,
            fetch_image=fetch_image,
            fs_group=fs_group,
            images=policy.images(images),
            local_roots=policy.roots(local_roots),
            remote_hosts=policy.hosts(remote_hosts),
            intel_gpu_resource=intel_gpu_resource,
        ),
    )
    app.run(settings, config.find(os.environ))


def configure_logs(level: str, style: str) -> None:
    """Write one line per outcome to standard error, as JSON or as text."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise typer.BadParameter(f"{level!r} is not a log level: use debug, info, warning or error")
    if style not in {"json", "text"}:
        raise typer.BadParameter(f"{style!r} is not a log format: use json or text")
    last = structlog.processors.JSONRenderer() if style == "json" else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
