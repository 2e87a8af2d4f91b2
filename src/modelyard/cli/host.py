"""`modelyard host`: the daemon of a machine outside the cluster, and `modelyard host join`, which makes it known."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from ipaddress import ip_address, ip_network
from math import ceil
from pathlib import Path
from typing import Annotated, Final

import typer

from modelyard import event_loop
from modelyard.cli.logging_setup import LogFormat, LogLevel, configure_logging
from modelyard.core.errors import ModelyardError
from modelyard.core.quantities import quantity, seconds
from modelyard.home import home_folder
from modelyard.host.access import NOT_PUBLIC, Network, read_token
from modelyard.host.daemon import run_daemon
from modelyard.host.join import Joining, host_name, manifests
from modelyard.host.settings import ALL_ADDRESSES, DEFAULT_PORT, HostSettings, Tls, default_state, read_host_record
from modelyard.manifests.render import documents

app = typer.Typer(invoke_without_command=True, no_args_is_help=False, add_completion=False)

_ELSEWHERE: Final = {socket.AF_INET: ("192.0.2.1", 9), socket.AF_INET6: ("2001:db8::1", 9)}
"""Addresses of documentation: nothing is sent, the kernel only says by which of ours they would be reached."""

Dir = Annotated[
    Path | None, typer.Option("--dir", help="Where state is kept. Left out: a folder in the user's data folder.")
]


@app.callback()
def host(
    context: typer.Context,
    listen: Annotated[str, typer.Option(help="The address and port to listen at.")] = f"0.0.0.0:{DEFAULT_PORT}",
    folder: Dir = None,
    token_file: Annotated[
        Path | None, typer.Option(help="The file with the bearer token. Left out: one is made in the state folder.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="A network that may call, such as 10.0.0.0/8. Repeatable. Left out: all that are not public."
        ),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate to serve with, as PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, as PEM.")] = None,
    memory: Annotated[
        str, typer.Option(help="What models may take together, such as 24Gi. Left out: by the memory of the machine.")
    ] = "",
    evict: Annotated[
        bool, typer.Option("--evict", help="Unload models of low priority while the machine is short of memory.")
    ] = False,
    engines: Annotated[Path | None, typer.Option(help="A file that says how to start engines.")] = None,
    allow_root: Annotated[
        list[Path] | None, typer.Option(help="A folder that local sources may be in. Repeatable.")
    ] = None,
    drain: Annotated[str, typer.Option(help="How long requests in flight may take at the end, such as 30s.")] = "30s",
    log_level: LogLevel = "info",
    log_format: LogFormat = "json",
) -> None:
    """Serve models on this machine for a cluster that it is not a node of. SIGTERM drains it."""
    if context.invoked_subcommand:
        return
    address, port = _address(listen)
    settings = HostSettings(
        state=_state(folder),
        host=address,
        port=port,
        token_file=token_file,
        networks=_networks(allow),
        tls=_tls(tls_cert, tls_key),
        budget=_bytes(memory),
        evicts=evict,
        engines=engines,
        roots=tuple(allow_root or ()),
        drain_seconds=_seconds(drain),
    )
    configure_logging(log_level, log_format)
    event_loop.run(run_daemon(settings))


@app.command()
def join(
    name: Annotated[str, typer.Argument(help="The name of the InferenceHost. Left out: that of the machine.")] = "",
    endpoint: Annotated[
        str, typer.Option(help="The URL under which the cluster reaches the daemon. Left out: our own address.")
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="The namespace of the objects. Left out: where they are applied.")
    ] = "",
    ca: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The CA that signed the certificate of the daemon, as PEM."),
    ] = None,
    folder: Dir = None,
) -> None:
    """Print the InferenceHost of this machine and the Secret with its token, for `kubectl apply -f -`."""
    record = read_host_record(_state(folder))
    scheme = "https" if record.is_tls else "http"
    joining = Joining(
        name=name or host_name(socket.gethostname()),
        endpoint=endpoint or f"{scheme}://{_in_url(_called_at(record.host))}:{record.port}",
        token=read_token(Path(record.token_file)),
        namespace=namespace,
        ca=ca.read_text() if ca else "",
    )
    sys.stdout.write(documents(manifests(joining)))


def _state(folder: Path | None) -> Path:
    home = home_folder()
    if not (folder or home or os.environ.get("XDG_DATA_HOME")):
        raise ModelyardError("this user has no home folder; set HOME, or name a folder with --dir")
    return (folder or default_state(os.environ, home or Path())).resolve()


def _address(listen: str) -> tuple[str, int]:
    address, _, text = listen.rpartition(":")
    try:
        host, port = str(ip_address(address.strip("[]"))), int(text)
    except ValueError:
        host, port = "", -1
    # The event loop would take a port beyond the last one, and listen at another.
    if port not in range(2**16):
        example = f"write it as 0.0.0.0:{DEFAULT_PORT}"
        raise typer.BadParameter(f"--listen: {listen!r} is no address and port; {example}")
    return host, port


def _networks(texts: list[str] | None) -> tuple[Network, ...]:
    try:
        return tuple(map(ip_network, texts)) if texts else NOT_PUBLIC
    except ValueError as error:
        raise typer.BadParameter(f"--allow: {error}") from error


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    if (certificate is None) != (key is None):
        raise typer.BadParameter("--tls-cert and --tls-key belong together; name both, or none")
    return Tls(certificate, key) if certificate and key else None


def _bytes(memory: str) -> int | None:
    try:
        return ceil(quantity(memory)) if memory else None
    except ValueError as error:
        raise typer.BadParameter(f"--memory: {error}") from error


def _seconds(drain: str) -> float:
    try:
        return seconds(drain)
    except ValueError as error:
        raise typer.BadParameter(f"--drain: {error}") from error


def _called_at(address: str) -> str:
    """Return the address of a daemon, from that of its record. Of a machine with IPv4 and IPv6, that of IPv4."""
    if address not in ("", ALL_ADDRESSES):
        return address
    families = _ELSEWHERE if address else (socket.AF_INET,)
    found = next(filter(None, map(_own_address, families)), "")
    if not found:
        remedy = "connect it to a network" if address else "listen at [::] if it has one of IPv6"
        known = f"no {'' if address else 'IPv4 '}address; {remedy}"
        raise ModelyardError(f"this machine has {known}, or name the URL with --endpoint")
    return found


def _own_address(family: socket.AddressFamily) -> str:
    """Return the address of this machine by which others of a family are reached; empty: it has none."""
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(_ELSEWHERE[family])
        return str(probe.getsockname()[0])
    return ""


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
