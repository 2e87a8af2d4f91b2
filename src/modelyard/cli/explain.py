"""`modelyard explain`: why an object is not ready, and what to do next."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import structs

from modelyard.cli.completing import complete_target
from modelyard.cli.on_cluster import Context, Form, Kubeconfig, Namespace, on_cluster, say
from modelyard.cli.place import chosen_place
from modelyard.cluster.explain import explain_object, printed
from modelyard.cluster.kind_names import split_target
from modelyard.cluster.output import Output


def explain(
    target: Annotated[
        str,
        typer.Argument(metavar="KIND/NAME", help="The object, such as model/tiny.", autocompletion=complete_target),
    ],
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Namespace = "",
    output: Form = Output.TABLE,
) -> None:
    """Say why an object is not ready: conditions, pods, events, logs of what failed, and the next command."""
    resource, name = split_target(target)
    place = chosen_place(kubeconfig, context, namespace)
    told = on_cluster(place, lambda session: explain_object(session, resource, name))
    # A command that is pasted must not reach another cluster.
    leading = structs.replace(told, next=tuple(f"{command}{place.flags}" for command in told.next))
    say(printed(leading, output))
