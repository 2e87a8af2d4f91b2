"""`modelyard doctor`: whether a cluster has what Modelyard needs."""

from __future__ import annotations

import typer

from modelyard.cli.on_cluster import Context, Form, Kubeconfig, Namespace, on_cluster, say
from modelyard.cli.place import chosen_place
from modelyard.cluster.doctor import examine, printed
from modelyard.cluster.output import Output


def doctor(
    kubeconfig: Kubeconfig = None, context: Context = "", namespace: Namespace = "", output: Form = Output.TABLE
) -> None:
    """Check a cluster: versions, definitions, operators, rights, storage, GPUs, and APIs that some features need."""
    found = on_cluster(chosen_place(kubeconfig, context, namespace), examine)
    say(printed(found, output))
    if not found.is_healthy:
        raise typer.Exit(1)
