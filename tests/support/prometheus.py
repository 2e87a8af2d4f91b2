"""The definitions of the Prometheus operator, from its own Go module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.gomodules import Module

if TYPE_CHECKING:
    from pathlib import Path

MODULE = Module(
    "github.com/prometheus-operator/prometheus-operator@v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
)


def definitions() -> list[Path]:
    """Return the files with the definitions that the chart may need."""
    folder = MODULE.folder() / "example" / "prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{plural}.yaml" for plural in ("podmonitors", "prometheusrules")]
