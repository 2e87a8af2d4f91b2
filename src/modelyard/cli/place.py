"""Which cluster a command line means: as for kubectl, and where nothing names one, the `modelyard up` of this user."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from modelyard.cluster.session import Place
from modelyard.kube import config

if TYPE_CHECKING:
    from pathlib import Path


def chosen_place(kubeconfig: Path | None, context: str = "", namespace: str = "") -> Place:
    """Return the cluster and the namespace that the flags of a command line and the environment mean."""
    if kubeconfig is None and not config.is_named(os.environ):
        from modelyard.cli.one_machine import running_kubeconfig  # noqa: PLC0415 - clusters need nothing of it

        kubeconfig = running_kubeconfig()
    return Place(kubeconfig, context, namespace)
