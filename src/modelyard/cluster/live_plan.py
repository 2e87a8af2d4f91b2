"""`modelyard plan --live`: what would become of the manifests of a user on the cluster as it is. Reads only."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelyard.cluster.changes import Change, Changes, Subject, changes, unequal
from modelyard.cluster.failures import is_undefined, no_definition
from modelyard.cluster.output import Output, encoded, table
from modelyard.cluster.rehearsal import rehearse
from modelyard.core.errors import ModelyardError, SpecInvalid
from modelyard.core.objects import Stored
from modelyard.core.resources import SECRET
from modelyard.kinds import ALL
from modelyard.kinds.decode import decode
from modelyard.kube.errors import NotFound
from modelyard.manifests.unknown import unknown_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelyard.cluster.session import Session
    from modelyard.core.objects import Json
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Kind
    from modelyard.manifests.documents import Document

_KINDS: Final = {(kind.resource.api_version, kind.resource.kind): kind for kind in ALL}
_REFERRED: Final = {
    (one.api_version, one.kind): one
    for kind in ALL
    for one in kind.looks_at
    if (one.api_version, one.kind) not in _KINDS
}
_SHOWN_FIELDS: Final = 3


async def plan_live(session: Session, documents: Sequence[Document], policy: Policy) -> Changes:
    """Return what the operator would change if these manifests were applied."""
    subjects, given = [], []
    for document in documents:
        identity = (document.body["apiVersion"], document.body["kind"])
        if kind := _KINDS.get(identity):
            subjects.append(await _subject(session, kind, document))
        elif resource := _REFERRED.get(identity):
            namespace = session.namespace if resource.namespaced else ""
            given.append(Stored.from_dict(resource, _placed(with_string_data(document.body), namespace)))
    rehearsed = await rehearse(session.transport, [one.stored for one in subjects], given, policy)
    live = [one.live for one in subjects if one.live]
    now = await rehearse(session.transport, live, (), policy)
    return changes(subjects, rehearsed, now.intents)


async def _subject(session: Session, kind: Kind, document: Document) -> Subject:
    """Return an object of the file as it would be stored: with the status and the identity of the live one."""
    body = _placed(document.body, session.namespace)
    if unknown := unknown_fields(kind, body):
        raise ModelyardError(f"{document.title}: {unknown[0]}")
    wanted = Stored.from_dict(kind.resource, {**body, "metadata": {**body["metadata"], "uid": _new_uid(kind, body)}})
    try:
        live = await session.client.get(kind.resource, wanted.meta.key)
    except NotFound as error:
        if is_undefined(error):
            raise no_definition(kind.resource) from error
        return Subject(_checked(kind, wanted, document), None)
    stored = _checked(kind, _over(live, body, keeps_replicas=kind.scale), document)
    fields = tuple(unequal(_spec(kind, stored), _spec(kind, live), "spec"))
    return Subject(stored, live, fields)


def _new_uid(kind: Kind, body: Json) -> str:
    """Return an identity for a new object: two of them must not take the children of each other for their own."""
    return f"planned-{kind.name}-{body['metadata']['name']}"


def _checked(kind: Kind, stored: Stored, document: Document) -> Stored:
    try:
        decode(kind, stored)
    except SpecInvalid as error:
        raise ModelyardError(f"{document.title}: {error}") from error
    return stored


def _over(live: Stored, body: Json, *, keeps_replicas: bool) -> Stored:
    before = live.to_dict()
    spec = dict(body.get("spec", {}))
    if keeps_replicas and "replicas" not in spec and "replicas" in before.get("spec", {}):
        # A file that states no number leaves it to `kubectl scale` or to an autoscaler.
        spec["replicas"] = before["spec"]["replicas"]
    meta = {**before["metadata"], "resourceVersion": str(live.meta.revision + 1)}
    for name in ("labels", "annotations"):
        meta[name] = {**(meta.get(name) or {}), **body["metadata"].get(name, {})}
    return Stored.from_dict(live.resource, {**before, "metadata": meta, "spec": spec})


def _spec(kind: Kind, stored: Stored) -> Any:
    """Return a spec with its defaults, so that only what matters differs; as it stands, if it does not decode."""
    try:
        return msgspec.to_builtins(decode(kind, stored).spec)
    except SpecInvalid:
        return stored.spec


def _placed(body: Json, namespace: str) -> Json:
    home = {"namespace": namespace} if namespace else {}
    return {**body, "metadata": {**home, **body["metadata"]}}


def with_string_data(body: Json) -> Json:
    """Return a Secret with its `stringData` as `data`, as the API server stores it; anything else as it is."""
    if body["kind"] != SECRET.kind or not body.get("stringData"):
        return body
    written = {name: base64.b64encode(str(text).encode()).decode() for name, text in body["stringData"].items()}
    rest = {name: value for name, value in body.items() if name != "stringData"}
    return {**rest, "data": {**body.get("data", {}), **written}}


def printed(found: Changes, output: Output) -> str:
    """Return changes as `modelyard plan --live` prints them; empty: a table without rows."""
    if output.is_for_programs:
        return encoded(found, output)
    cells = [_cells(one, is_wide=output is Output.WIDE) for one in found.changes]
    return table(("OBJECT", "WHAT", "ACTION", "FIELDS"), cells) if cells else ""


def _cells(one: Change, *, is_wide: bool) -> tuple[str, ...]:
    shown = one.fields if is_wide else one.fields[:_SHOWN_FIELDS]
    more = len(one.fields) - len(shown)
    return (one.of, f"{one.kind} {one.name}", one.action, ", ".join(shown) + (f" and {more} more" if more else ""))
