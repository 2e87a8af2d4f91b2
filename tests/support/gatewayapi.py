"""The definitions of Gateway API, from its own Go module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.gomodules import Module

if TYPE_CHECKING:
    from pathlib import Path

MODULE = Module("sigs.k8s.io/gateway-api@v1.5.1", "h1:RqVRIlkhLhUO8wOHKTLnTJA6o/1un4po4/6M1nRzdd0=")


def definitions() -> list[Path]:
    """Return the files with the definitions of the standard channel."""
    return sorted((MODULE.folder() / "config" / "crd" / "standard").glob("gateway.networking.k8s.io_[!v]*.yaml"))
