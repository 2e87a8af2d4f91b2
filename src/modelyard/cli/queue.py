"""`modelyard queue`: who waits for GPUs, and for whom."""

from __future__ import annotations

from datetime import UTC, datetime

from modelyard.cli.on_cluster import Context, Form, Kubeconfig, Namespace, on_cluster, remark, say
from modelyard.cli.place import chosen_place
from modelyard.cluster.output import Output
from modelyard.cluster.queue import find_queue, printed


def queue(
    kubeconfig: Kubeconfig = None, context: Context = "", namespace: Namespace = "", output: Form = Output.TABLE
) -> None:
    """Show who waits for GPUs, in their order, and who holds them. Without a namespace: in all of them."""
    place = chosen_place(kubeconfig, context, namespace)
    found, missing = on_cluster(place, lambda session: find_queue(session, namespace))
    say(printed(found, output, datetime.now(UTC)))
    for line in missing:
        remark(line)
    if not found.waiting:
        remark("nothing waits for GPUs")
