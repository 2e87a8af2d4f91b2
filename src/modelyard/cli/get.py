"""`modelyard get`: what there is of all kinds, and whether it is ready."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from modelyard.cli.completing import complete_kind, complete_name
from modelyard.cli.on_cluster import Context, Everywhere, Form, Kubeconfig, Namespace, on_cluster, remark, say
from modelyard.cli.place import chosen_place
from modelyard.cluster.get import get_figures, get_rows, printed
from modelyard.cluster.kind_names import find_kind, find_kinds
from modelyard.cluster.output import Output

if TYPE_CHECKING:
    from modelyard.cluster.figures import Figures
    from modelyard.cluster.get import Rows
    from modelyard.cluster.session import Session


def get(
    kind: Annotated[
        str,
        typer.Argument(
            help="A kind, several with commas, or KIND/NAME. Left out: all kinds.",
            show_default=False,
            autocompletion=complete_kind,
        ),
    ] = "",
    name: Annotated[
        list[str] | None,
        typer.Argument(help="Names of objects. Left out: all of the kind.", autocompletion=complete_name),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    selector: Annotated[str, typer.Option("--selector", "-l", help="Only objects with these labels.")] = "",
    output: Form = Output.TABLE,
) -> None:
    """List objects of all kinds: phase, ready, reason and URL."""
    word, slash, first = kind.partition("/")
    names = [*([first] if slash else []), *(name or ())]
    if names and (everywhere or selector):
        raise typer.BadParameter("an object that is named needs neither --all-namespaces nor --selector")
    resources = (find_kind(word),) if names else find_kinds(word)
    place = chosen_place(kubeconfig, context, namespace)

    async def work(session: Session) -> tuple[Rows, tuple[str, ...], Figures]:
        rows, missing = await get_rows(session, resources, names, everywhere=everywhere, selector=selector)
        return rows, missing, await get_figures(session, rows) if output is Output.WIDE else {}

    rows, missing, figures = on_cluster(place, work)
    say(printed(rows, output, datetime.now(UTC), everywhere=everywhere, figures=figures))
    for line in missing:
        remark(line)
    if not rows.items:
        remark("nothing found; `modelyard get -A` looks at all namespaces" if not everywhere else "nothing found")
