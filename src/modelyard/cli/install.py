"""`modelyard install` and `modelyard uninstall`: the operator on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from modelyard.cli.on_cluster import Context, Form, Kubeconfig, Yes, agree, on_cluster, remark, say
from modelyard.cluster import installation
from modelyard.cluster.output import Output
from modelyard.cluster.session import Place
from modelyard.core.image import IMAGE


def install(
    image: Annotated[str, typer.Option(help="The image of the operator and of downloads.")] = IMAGE,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    output: Form = Output.TABLE,
) -> None:
    """Install the operator of this version on a cluster, or upgrade to it. Objects and weights stay."""
    done = on_cluster(Place(kubeconfig, context), lambda session: installation.install(session, image))
    say(installation.printed(done, output))
    if all(step.action == "unchanged" for step in done.steps):
        remark("nothing has changed")
    remark("see it start with `kubectl -n modelyard-system rollout status deployment/modelyard`")


def uninstall(
    definitions: Annotated[
        bool, typer.Option("--definitions", help="Also delete all kinds, and with them every object of them.")
    ] = False,
    weights: Annotated[
        bool, typer.Option("--weights", help="Also delete the claims that weights are cached on.")
    ] = False,
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    output: Form = Output.TABLE,
) -> None:
    """Remove the operator from a cluster. Definitions, objects, weights and what runs stay, unless named."""
    place = Place(kubeconfig, context)
    data = on_cluster(place, lambda session: installation.find_data(session, definitions=definitions, weights=weights))
    agree(data.lines, yes=yes)
    done = on_cluster(place, lambda session: installation.uninstall(session, data, definitions=definitions))
    say(installation.printed(done, output))
