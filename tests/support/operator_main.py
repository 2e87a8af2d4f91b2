"""The operator as `modelyard run` starts it, except that every Service is found at one local port."""

from __future__ import annotations

import os

import msgspec

from modelyard import app
from modelyard.cli.logging_setup import configure_logging
from modelyard.core.policy import Policy
from modelyard.core.resources import Key
from modelyard.kube import config
from modelyard.runtime.manager import Settings


def main() -> None:
    configure_logging(os.environ.get("LOG_LEVEL", "info"), "text")
    settings = Settings(
        lease=Key(os.environ["LEASE_NAMESPACE"], "modelyard"),
        identity=os.environ["IDENTITY"],
        namespace=os.environ.get("WATCH_NAMESPACE", ""),
        host="127.0.0.1",
        health_port=int(os.environ.get("HEALTH_PORT", "0")),
        metrics_port=int(os.environ.get("METRICS_PORT", "0")),
        policy=msgspec.json.decode(os.environ.get("POLICY", "{}"), type=Policy),
    )
    port = int(os.environ.get("MCP_PORT", "1"))
    app.run(settings, config.find(os.environ), locate=lambda _: ("127.0.0.1", port))


if __name__ == "__main__":
    main()
