"""`modelyard explain`: read everything that may say why an object is not ready, and print what comes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from modelyard.cluster import containers
from modelyard.cluster.explanation import Explanation, Facts, Log, Need, explain
from modelyard.cluster.failures import may_not
from modelyard.cluster.output import Output, encoded, table
from modelyard.core import names
from modelyard.core.errors import SpecInvalid
from modelyard.core.resources import EVENT, POD, SECRET, Key
from modelyard.core.text import clean
from modelyard.kinds import ALL
from modelyard.kinds.contract import Named, Seen
from modelyard.kinds.decode import decode
from modelyard.kinds.gather import Gathering
from modelyard.kube.errors import Forbidden, KubeError, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.cluster.containers import Failed
    from modelyard.cluster.session import Session
    from modelyard.core.objects import Stored
    from modelyard.core.resources import Resource
    from modelyard.kinds.contract import Kind, Lookup, Object

_LOGS: Final = 3
_LINES: Final = 15
_LONGEST_LINE: Final = 512
_KINDS: Final = {kind.resource: kind for kind in ALL}


async def explain_object(session: Session, resource: Resource, name: str) -> Explanation:
    """Return why an object of a kind of ours is not ready; NothingFound: it does not exist."""
    item, kind = await session.get(resource, Key(session.namespace, name)), _KINDS[resource]
    reading = _Reading(session)
    selector = f"{names.KIND_LABEL}={kind.name},{names.INSTANCE_LABEL}={names.short(name)}"
    resources = [one for one in dict.fromkeys((*kind.children, *kind.creates)) if one != SECRET and not one.optional]
    children = [child for one in resources for child in await reading.list(one, selector=selector)]
    pods = await reading.list(POD, selector=selector)
    return explain(
        Facts(
            item=item,
            needs=tuple(await _needs(reading, kind, item)),
            children=tuple(children),
            pods=tuple(pods),
            events=tuple(await reading.list(EVENT, field_selector="type=Warning")),
            logs=tuple([await _log(session, each) for each in islice(containers.failed(pods), _LOGS)]),
            unread=tuple(dict.fromkeys(reading.unread)),
        )
    )


class _Reading:
    """Reads objects, and collects what the user may not read instead of failing: the rest still helps."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.unread: list[str] = []

    async def list(self, resource: Resource, selector: str = "", field_selector: str = "") -> list[Stored]:
        try:
            return await self._session.client.list_all(
                resource, self._session.namespace, selector, field_selector=field_selector
            )
        except Forbidden as error:
            self.unread.append(may_not(error))
            return []

    async def need(self, resource: Resource, key: Key) -> Need | None:
        try:
            return Need(resource, key, await self._session.client.get(resource, key))
        except NotFound:
            return Need(resource, key, None)
        except Forbidden as error:
            # It may exist all the same, so nothing is said of it.
            self.unread.append(may_not(error))
            return None


async def _needs(reading: _Reading, kind: Kind, item: Stored) -> list[Need]:
    """Return the objects of our kinds that an object refers to, by the reads of its kind."""
    try:
        obj = decode(kind, item)
    except SpecInvalid:
        return []
    needs = []
    gathering = Gathering(kind, obj, Seen(datetime.now(UTC)))
    for read in gathering:
        need = await _need(reading, obj, read)
        gathering.found(read, {need.key: need.item} if need and need.item else {})
        if need:
            needs.append(need)
    return needs


async def _need(reading: _Reading, obj: Object[Any], read: Lookup) -> Need | None:
    """Return an object of our kinds that is read by name; None: it is something else, or may not be looked at."""
    if not isinstance(read, Named) or read.resource not in _KINDS:
        return None
    return await reading.need(read.resource, Key(obj.meta.namespace, read.name))


async def _log(session: Session, failed: Failed) -> Log:
    (namespace, name), container = failed.pod.meta.key, failed.name
    try:
        text = await session.client.log_tail(namespace, name, container, _LINES, previous=failed.was_started_again)
    except KubeError as error:
        return Log(name, container, remark=clean(str(error), _LONGEST_LINE))
    return Log(name, container, tuple(clean(line, _LONGEST_LINE) for line in text.splitlines()))


def printed(told: Explanation, output: Output) -> str:
    """Return an explanation as `modelyard explain` prints it."""
    if output.is_for_programs:
        return encoded(told, output)
    sections = [
        _section("Why", [f"{each.about}: {each.reason}: {each.message}" for each in told.causes]),
        _section("Conditions", _condition_lines(told)) if output is Output.WIDE else "",
        _section("Events", _event_lines(told)),
        *(_section(_title(log), log.lines or [log.remark or "(empty)"]) for log in told.logs),
        _section("Not read", told.unread),
        _section("Next", told.next),
    ]
    return "\n".join(part for part in (_headline(told), *sections) if part)


def _headline(told: Explanation) -> str:
    shown = told.object
    title = f"{shown.kind} {shown.name} in the namespace {shown.namespace}"
    state = "is ready" if shown.ready else f"is not ready: {shown.reason}"
    return f"{title} {state}\n" + (f"  {clean(shown.message, _LONGEST_LINE)}\n" if shown.message else "")


def _section(title: str, lines: Iterable[str]) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"{title}\n{body}" if body else ""


def _event_lines(told: Explanation) -> list[str]:
    return [
        f"{each.last}  {each.about}: {each.reason}: {each.message}" + (f" (x{each.count})" if each.count > 1 else "")
        for each in told.events
    ]


def _condition_lines(told: Explanation) -> list[str]:
    fields = ("type", "status", "reason", "message")
    cells = [tuple(str(entry.get(field, "")) for field in fields) for entry in told.conditions]
    return table(tuple(map(str.upper, fields)), cells).splitlines() if cells else []


def _title(log: Log) -> str:
    return f"The end of the log of container {log.container} in the pod {log.pod}"
