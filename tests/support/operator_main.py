"""The operator as `modelyard run` starts it, except that every Service is found at one local port.

An administrator has allowed the name `localhost`, where tests have their hosts, and no other address of this machine.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import msgspec

from modelyard import app
from modelyard.cli.logging_setup import configure_logging
from modelyard.core.policy import Policy
from modelyard.core.resources import Key
from modelyard.kube import config
from modelyard.runtime.manager import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_POLICY = '{"remote_hosts": ["localhost"]}'


def main() -> None:
    configure_logging(os.environ.get("LOG_LEVEL", "info"), "text")
    settings = Settings(
        lease=Key(os.environ["LEASE_NAMESPACE"], "modelyard"),
        identity=os.environ["IDENTITY"],
        namespace=os.environ.get("WATCH_NAMESPACE", ""),
        host="127.0.0.1",
        health_port=int(os.environ.get("HEALTH_PORT", "0")),
        metrics_port=int(os.environ.get("METRICS_PORT", "0")),
        engine_metrics="ENGINE_METRICS" in os.environ,
        policy=msgspec.json.decode(os.environ.get("POLICY", _POLICY), type=Policy),
    )
    port = int(os.environ.get("MCP_PORT", "1"))
    app.run(settings, config.find(os.environ), locate=lambda _: ("127.0.0.1", port))


def forked(program: Callable[[], None], environment: dict[str, str], log: Path) -> None:
    """Run a program in a process that was just forked, with this environment, writing to this file."""
    os.environ.clear()
    os.environ.update(environment)
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    program()


if __name__ == "__main__":
    main()
