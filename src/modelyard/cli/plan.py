"""`modelyard plan`: what a manifest would create, without a cluster; `kubectl apply --dry-run` for our kinds.

Runs the same `decode`, `reads` and `plan` as a reconcile, over the manifests of the files instead of the caches. With
`--live` it rehearses the whole reconcile against a cluster, as `kubectl diff` does for manifests.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import Struct

from modelyard.cli.on_cluster import Context, Form, Kubeconfig, Namespace, on_cluster, remark, say
from modelyard.cli.place import chosen_place
from modelyard.cli.run import read_policy
from modelyard.cluster.live_plan import plan_live, with_string_data
from modelyard.cluster.live_plan import printed as printed_live
from modelyard.cluster.operator import find_operator
from modelyard.cluster.output import Output, encoded
from modelyard.core.errors import ModelyardError, SpecInvalid
from modelyard.core.objects import Stored
from modelyard.core.plan import Child, CreateOnly
from modelyard.core.policy import Policy
from modelyard.core.reasons import PROBLEMS
from modelyard.core.resources import SECRET, Key
from modelyard.kinds import ALL
from modelyard.kinds.contract import Named, Owned, Seen
from modelyard.kinds.decode import decode
from modelyard.kinds.gather import Gathering
from modelyard.manifests.documents import read_files
from modelyard.manifests.render import documents
from modelyard.manifests.unknown import unknown_fields
from modelyard.runtime.dependents import matches
from modelyard.runtime.gather import hashed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from modelyard.cluster.changes import Changes
    from modelyard.cluster.session import Place, Session
    from modelyard.kinds.contract import Kind, Lookup, Object
    from modelyard.manifests.documents import Document

Json = dict[str, Any]

_DIFFERS: Final = 2
_LIST: Final = {"apiVersion": "v1", "kind": "List"}
_ANYWHERE: Final = Policy(local_roots=("/",))
"""Which local files may be served is a setting of each operator. `modelyard up` allows all, so none is refused here."""


class _Planned(Struct, frozen=True):
    """What one manifest leads to."""

    children: tuple[Json, ...] = ()
    problems: tuple[str, ...] = ()
    """What stands in its way."""


def plan(
    file: Annotated[
        list[str],
        typer.Option("--file", "-f", help="Manifests: a file, a folder, or - for standard input. Repeatable."),
    ],
    live: Annotated[
        bool,
        typer.Option("--live", help="Compare with the cluster: what would be created, changed, restarted, deleted."),
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Namespace = "",
    output: Form = Output.TABLE,
) -> None:
    """Print the objects that manifests would create. References are looked up among the same manifests."""
    read = read_files(file)
    if live:
        _plan_live(read, chosen_place(kubeconfig, context, namespace), output)
        return
    if kubeconfig or context or namespace:
        raise typer.BadParameter("--kubeconfig, --context and --namespace need --live")
    given = [_placed(document.body) for document in read]
    plans = [_planned_document(document, given) for document in read]
    say(_listed([child for each in plans for child in each.children], output))
    if problems := [problem for each in plans for problem in each.problems]:
        raise ModelyardError("\n".join(problems))
    if not any(_kind(document.body) for document in read):
        names = ", ".join(sorted(kind.resource.kind for kind in ALL))
        raise ModelyardError(f"there is nothing to plan: {', '.join(file)} holds no {names}; name a file that does")


def _plan_live(read: Sequence[Document], place: Place, output: Output) -> None:
    """Print what would change on the cluster, and exit with 2 if anything would."""

    async def work(session: Session) -> Changes:
        operator = await find_operator(session)
        if operator is None:
            remark("the operator is not installed or may not be looked at; it is assumed to run without flags")
        settings = read_policy(operator.arguments, operator.environment) if operator else Policy()
        return await plan_live(session, read, settings)

    for document in read:
        if not _kind(document.body):
            remark(f"{document.title} is of no kind of ours: it is not compared")
    found = on_cluster(place, work)
    say(printed_live(found, output))
    if found.problems:
        raise ModelyardError("\n".join(f"{one.of}: {one.reason}: {one.message}" for one in found.problems))
    if found.changes:
        raise typer.Exit(_DIFFERS)
    remark("nothing would change")


def _listed(children: list[Json], output: Output) -> str:
    """Return objects as `kubectl apply -f -` takes them: YAML documents, or a List."""
    return encoded({**_LIST, "items": children}, output) if output is Output.JSON else documents(children)


def _planned_document(document: Document, given: Iterable[Json]) -> _Planned:
    """Return the plan of one object. Objects of other kinds are only referred to."""
    if kind := _kind(document.body):
        return _planned(kind, Stored.from_dict(kind.resource, _placed(document.body)), document.body, given)
    known = _like(document.body)
    if not known:
        remark(f"{document.title} is of no kind of ours: it is applied as it is")
        return _Planned()
    wanted = f"{document.body['kind']} in {document.body['apiVersion']}"
    return _Planned(
        problems=(f"{document.origin}: there is no kind {wanted} (there is {', '.join(known)}); correct the file",)
    )


def _kind(body: Json) -> Kind | None:
    """Return the kind of ours that an object is of; None: of none."""
    wanted = (body["apiVersion"], body["kind"])
    return next((kind for kind in ALL if (kind.resource.api_version, kind.resource.kind) == wanted), None)


def _like(body: Json) -> list[str]:
    """Return the kinds that an object of no kind of ours may be meant to be of: same group, or the same name."""
    group, name = body["apiVersion"].rpartition("/")[0], body["kind"].lower()
    meant = (kind.resource for kind in ALL if group == kind.resource.group or name == kind.resource.kind.lower())
    return [f"{resource.kind} in {resource.api_version}" for resource in meant]


def _placed(body: Json) -> Json:
    return {**body, "metadata": {"namespace": "default", **body["metadata"]}}


def _planned(kind: Kind, stored: Stored, body: Json, given: Iterable[Json]) -> _Planned:
    title = f"{kind.resource.kind} {stored.meta.key}"
    if unknown := unknown_fields(kind, body):
        return _Planned(problems=tuple(f"{title}: {problem}" for problem in unknown))
    try:
        obj = decode(kind, stored)
    except SpecInvalid as error:
        return _Planned(problems=(f"{title}: {error}",))
    seen = _look(kind, obj, given)
    wanted = kind.plan(obj, seen, *kind.decided(obj, seen))
    children = tuple(_printed(obj, child) for child in wanted.apply)
    if wanted.blocked and wanted.blocked.reason in PROBLEMS:
        return _Planned(children, (f"{title}: {wanted.blocked.text}",))
    if wanted.blocked:
        # Nothing runs here, so what only has to be waited for says nothing against the file.
        remark(f"{title} is planned later: {wanted.blocked.message}")
    return _Planned(children)


def _look(kind: Kind, obj: Object[Any], given: Iterable[Json]) -> Seen:
    """Return what is seen when nothing exists yet but the manifests of the file."""
    reading = Gathering(kind, obj, Seen(datetime.now(UTC), policy=_ANYWHERE))
    for read in reading:
        reading.found(read, _find(read, obj, given))
    return reading.seen({})


def _find(read: Lookup, obj: Object[Any], given: Iterable[Json]) -> dict[Key, Stored]:
    if isinstance(read, Owned):
        return {}
    wanted = (read.resource.api_version, read.resource.kind)
    found = (_stored(read, body) for body in given if (body["apiVersion"], body["kind"]) == wanted)
    if isinstance(read, Named):
        wanted_key = read.key(obj.meta.namespace)
        return {item.meta.key: item for item in found if item.meta.key == wanted_key}
    return {item.meta.key: item for item in found if matches(read, item)}


def _stored(read: Lookup, body: Json) -> Stored:
    if read.resource != SECRET:
        return Stored.from_dict(read.resource, body)
    try:
        return hashed(Stored.from_dict(SECRET, with_string_data(body)), salt="")
    except ValueError as error:
        raise ModelyardError(f"Secret {body['metadata'].get('name')}: data is not base64 ({error})") from error


def _printed(obj: Object[Any], child: Child | CreateOnly) -> Json:
    """Return a child as it would be created, less what only a stored owner has: references to its UID."""
    body = {**child.body, "metadata": {**child.body["metadata"], "namespace": obj.meta.namespace}}
    if isinstance(child, Child) and child.replicas:
        body["spec"] = {"replicas": child.replicas.at_creation, **body["spec"]}
    return body
