"""`modelyard cache`: which weights are on which claim; `modelyard cache rm`: remove those that nothing uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from modelyard.cli.on_cluster import (
    Context,
    Everywhere,
    Form,
    Kubeconfig,
    Namespace,
    Yes,
    agree,
    on_cluster,
    remark,
    say,
)
from modelyard.cli.place import chosen_place
from modelyard.cli.run import read_policy
from modelyard.cluster.cache import find_cache, look_into, printed
from modelyard.cluster.cached import Cache, Cached, unused
from modelyard.cluster.failures import NothingFound
from modelyard.cluster.operator import find_operator
from modelyard.cluster.output import Output
from modelyard.core.policy import Policy
from modelyard.core.resources import Key

if TYPE_CHECKING:
    from modelyard.cluster.session import Session

app = typer.Typer(invoke_without_command=True, no_args_is_help=False, add_completion=False)


@app.callback()
def cache(
    context_: typer.Context,
    scan: Annotated[
        bool, typer.Option("--scan", help="Look into the volumes, with a short pod on each claim.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    output: Form = Output.TABLE,
) -> None:
    """Show which weights are on which claim, how big they are, and what uses them."""
    if context_.invoked_subcommand:
        return
    found = on_cluster(
        chosen_place(kubeconfig, context, namespace), lambda session: _found(session, everywhere=everywhere, scan=scan)
    )
    say(printed(found, output))
    if not found.claims:
        remark("no claim caches weights here; `modelyard cache -A` looks at all namespaces")
    elif not scan:
        remark("only what objects say is shown; --scan looks into the volumes, also for what deleted ones have left")


@app.command()
def rm(
    key: Annotated[list[str] | None, typer.Argument(help="Keys of -o wide. Left out: all that nothing uses.")] = None,
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Namespace = "",
) -> None:
    """Remove the weights of a namespace that no object and no pod uses. Their files are named first."""
    place = chosen_place(kubeconfig, context, namespace)
    found = unused(on_cluster(place, lambda session: _found(session, everywhere=False, scan=True)), key or ())
    if not found:
        raise NothingFound("there are no such weights that nothing uses; `modelyard cache --scan` shows what there is")
    agree([_line(one) for one in found], yes=yes)
    removed = on_cluster(place, lambda session: _remove(session, found))
    say("".join(f"removed {one.shown_size} of {one.source}\n" for one in found if one.key in removed))


async def _found(session: Session, *, everywhere: bool, scan: bool) -> Cache:
    namespace = "" if everywhere else session.namespace
    return await find_cache(session, namespace, await _policy(session) if scan else None)


async def _policy(session: Session) -> Policy:
    operator = await find_operator(session)
    return read_policy(operator.arguments, operator.environment) if operator else Policy()


async def _remove(session: Session, chosen: list[Cached]) -> set[str]:
    """Remove weights that are still unused, and return their keys: a Model may have been made meanwhile."""
    policy = await _policy(session)
    still = {one.key for one in unused(await find_cache(session, session.namespace, policy), [])}
    removed: set[str] = set()
    for claim in sorted({one.claim for one in chosen}):
        keys = [one.key for one in chosen if one.claim == claim and one.key in still]
        if keys:
            removed |= {one.key for one in await look_into(session, Key(session.namespace, claim), policy, keys)}
    return removed


def _line(one: Cached) -> str:
    more = f" and {one.count - len(one.files)} more" if one.count > len(one.files) else ""
    return f"{one.claim}: {one.source} ({one.shown_size}): {', '.join(one.files)}{more}"
