"""`modelyard page`: what runs and why it does not, in a browser."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
import typer

from modelyard import event_loop
from modelyard.cli.logging_setup import LogFormat, LogLevel, configure_logging
from modelyard.cli.on_cluster import Context, Kubeconfig, say
from modelyard.cli.one_machine import local_services
from modelyard.cli.place import chosen_place
from modelyard.cluster.conversation import Ways
from modelyard.cluster.failures import explained
from modelyard.cluster.session import connection
from modelyard.core.names import PAGE_TOKEN
from modelyard.kube import config
from modelyard.page.server import PageSettings, serving_here, serving_in_cluster, until_signalled

_AUTHORITY: Final = Path("/etc/modelyard/kube-root-ca/ca.crt")
_PORT: Final = 8080


def page(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen at. Left out: any, or 8080 in a cluster.")
    ] = 0,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="The only namespace to show. Left out: all of them.")
    ] = "",
    edit: Annotated[bool, typer.Option("--edit", help="Let users scale, pause, retry and delete objects.")] = False,
    in_cluster: Annotated[
        bool, typer.Option("--in-cluster", help="Serve users of this cluster, each with a bearer token of their own.")
    ] = False,
    url: Annotated[
        list[str] | None,
        typer.Option(help="With --in-cluster: what browsers open, such as https://models.example.com. Repeatable."),
    ] = None,
    authority: Annotated[
        Path, typer.Option(help="With --in-cluster: the file with the CA of the API server.")
    ] = _AUTHORITY,
    listen_fd: Annotated[int | None, typer.Option(hidden=True, help="Used by `modelyard up`.")] = None,
    log_level: LogLevel = "warning",
    log_format: LogFormat = "text",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Show everything in a browser: states, causes, logs, cold starts, and a chat with each model. Ctrl-C ends it.

    It uses the kubeconfig of the user who starts it, and listens on loopback. The printed address lets one browser in.
    """
    if in_cluster and (kubeconfig or context):
        raise typer.BadParameter("--kubeconfig and --context are not for --in-cluster: users bring their own tokens")
    configure_logging(log_level, log_format)
    token = os.environ.pop(PAGE_TOKEN, "")
    settings = PageSettings(port, namespace, edit, token, listen_fd, _origins(url, in_cluster=in_cluster))
    if not in_cluster:
        place = chosen_place(kubeconfig, context)
        settings = msgspec.structs.replace(settings, ways=Ways(local_services(place.kubeconfig), place))
        with explained():
            found = connection(place, os.environ)
        event_loop.run(until_signalled(serving_here(found, settings), _say))
        return
    connect = partial(config.in_cluster_as, os.environ, authority=authority)
    event_loop.run(until_signalled(serving_in_cluster(connect, _with_port(settings)), _say))


def _with_port(settings: PageSettings) -> PageSettings:
    return msgspec.structs.replace(settings, port=settings.port or _PORT)


def _origins(urls: list[str] | None, *, in_cluster: bool) -> tuple[str, ...]:
    if in_cluster != bool(urls):
        raise typer.BadParameter("--in-cluster and --url belong together: browsers are refused under any other name")
    return tuple(_origin(url) for url in urls or ())


def _origin(url: str) -> str:
    at = urlsplit(url)
    is_near = at.hostname in {"localhost", "127.0.0.1"}
    if not at.netloc or at.path.strip("/") or (at.scheme != "https" and not is_near):
        raise typer.BadParameter(f"--url: {url!r} is not like https://models.example.com; tokens need TLS")
    return f"{at.scheme}://{at.netloc}"


def _say(line: str) -> None:
    say(f"{line}\n")
