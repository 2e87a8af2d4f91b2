"""All case files of all kinds, and whether they leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import inspect

import modelyard
from modelyard.core.errors import SpecInvalid
from modelyard.core.plan import Child
from modelyard.core.reasons import Reason
from modelyard.kinds import ALL
from modelyard.kinds.contract import Asked
from modelyard.kinds.decode import decode
from tests.kinds.cases import ALL_CASES, differences, given_object, named, play
from tests.kinds.paths import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Json
    from modelyard.core.plan import CreateOnly, Plan
    from modelyard.kinds.contract import Kind
    from tests.kinds.cases import Case, Said, Situation

SOURCE = Path(modelyard.__file__).parent
CASES = {name: (kind, case) for name, kind, case in named(ALL_CASES)}


@pytest.mark.parametrize("name", CASES, ids=CASES)
def test_case(name: str):
    kind, case = CASES[name]
    assert case.plan or case.status or case.invalid, "the case expects nothing"
    assert list(complaints(kind, case)) == []


def test_every_case_says_something_of_its_own():
    assert len(CASES) == len(ALL_CASES)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_every_field_that_users_can_set_has_a_case(kind: Kind):
    bodies = [case.given[0] for of, _, case in ALL_CASES if of is kind and not case.invalid]
    assert set(fields(inspect.type_info(kind.spec), "spec")) - set(named_fields(bodies)) == set()


def test_every_reason_that_a_kind_can_show_has_a_case():
    files = [*(SOURCE / "kinds").rglob("*.py"), *(SOURCE / "net").glob("*.py")]
    can_be_shown = {found for file in files for found in re.findall(r"\bReason\.([A-Z_]+)\b", file.read_text())}
    shown = {reason.name for reason in Reason if reason in set(expected_reasons())}
    assert can_be_shown - shown == set()


def expected_reasons() -> Iterator[str]:
    for _, _, case in ALL_CASES:
        yield from (said["reason"] for said in case.status.get("conditions", {}).values() if said and "reason" in said)


def fields(info: inspect.Type, path: str) -> Iterator[str]:
    """Return the path of every field of a type. Kubernetes' own types are one field each."""
    if isinstance(info, inspect.Metadata):
        yield from fields(info.type, path)
    elif isinstance(info, inspect.UnionType):
        for one in info.types:
            yield from fields(one, path)
    elif isinstance(info, inspect.VarTupleType):
        yield from fields(info.item_type, path)
    elif isinstance(info, inspect.StructType):
        for field in info.fields:
            yield f"{path}.{field.encode_name}"
            yield from fields(field.type, f"{path}.{field.encode_name}")


def named_fields(value: Any, path: str = "") -> Iterator[str]:
    """Return the path of every field that some manifest names."""
    if isinstance(value, list):
        for one in value:
            yield from named_fields(one, path)
    elif isinstance(value, dict):
        for name, inner in value.items():
            here = f"{path}.{name}" if path else name
            yield here
            yield from named_fields(inner, here)


def complaints(kind: Kind, case: Case) -> Iterator[str]:
    """Return everything that is not as the case says."""
    if case.invalid:
        yield from refusal(kind, case)
        return
    situation = play(kind, case)
    if case.plan:
        yield from plan_complaints(case, situation)
    yield from status_complaints(case.status, situation.status)


def refusal(kind: Kind, case: Case) -> Iterator[str]:
    assert case.invalid
    try:
        decode(kind, given_object(kind, case))
    except SpecInvalid as error:
        if error.field != case.invalid.field:
            yield f"expected {case.invalid.field} to be refused, found {error.field}"
        if case.invalid.says not in str(error):
            yield f"expected {case.invalid.says!r} in {str(error)!r}"
        return
    yield "the object is accepted"


def plan_complaints(case: Case, situation: Situation) -> Iterator[str]:
    wanted, plan = case.plan, situation.plan
    assert wanted
    yield from differences(tuple(sorted(wanted.delete)), deleted(plan), "delete")
    yield from blocked_complaints(wanted.blocked, plan)
    if wanted.count is not None:
        yield from differences(list(wanted.count.items()), list(count(plan).items()), "count")
    if wanted.requeue_after is not None:
        yield from differences(wanted.requeue_after, plan.requeue_after and plan.requeue_after.seconds, "requeueAfter")
    if wanted.asks is not None:
        questions = [
            msgspec.json.decode(msgspec.json.encode(read.check)) for read in situation.reads if isinstance(read, Asked)
        ]
        yield from differences(len(wanted.asks), len(questions), "number of questions")
        for question, asked in zip(wanted.asks, questions, strict=False):
            yield from differences(question, asked, "asks")
    if wanted.calls is not None:
        yield from differences(len(wanted.calls), len(plan.calls), "number of calls")
        for request, call in zip(wanted.calls, plan.calls, strict=False):
            yield from differences(request, msgspec.to_builtins(call), "calls")
    if wanted.replicas:
        (found,) = (child.replicas for child in plan.apply if isinstance(child, Child) and child.replicas)
        yield from differences(wanted.replicas, msgspec.to_builtins(found), "replicas")
    for statement in wanted.apply:
        found = value_at(only(plan, statement.kind, statement.name).body, statement.at)
        # Compared whole: a case that states a mapping means all of it.
        if found != statement.value:
            yield f"{statement.kind} {statement.name} {statement.at}: expected {statement.value!r}, found {found!r}"


def only(plan: Plan, kind: str, name: str) -> Child | CreateOnly:
    (child,) = (child for child in plan.apply if child.resource.kind == kind and name in ("", child.name))
    return child


def count(plan: Plan) -> dict[str, int]:
    kinds = [child.resource.kind for child in plan.apply]
    return {kind: kinds.count(kind) for kind in kinds}


def deleted(plan: Plan) -> tuple[str, ...]:
    return tuple(sorted(f"{ref.resource.kind}/{ref.key.name}" for ref in plan.delete))


def blocked_complaints(wanted: Said | None, plan: Plan) -> Iterator[str]:
    reason = plan.blocked.reason if plan.blocked else None
    yield from differences(wanted.reason if wanted else None, reason, "blocked")
    if wanted and plan.blocked and wanted.says not in plan.blocked.text:
        yield f"blocked: expected {wanted.says!r} in {plan.blocked.text!r}"


def status_complaints(wanted: Json, status: Json) -> Iterator[str]:
    yield from differences({name: part for name, part in wanted.items() if name != "conditions"}, status, "status")
    found = {entry["type"]: entry for entry in status["conditions"]}
    for kind, expected in wanted.get("conditions", {}).items():
        said = dict(expected or {})
        words = said.pop("says", "")
        yield from differences(said if expected is not None else None, found.get(kind), kind)
        if words not in found.get(kind, {}).get("message", ""):
            yield f"{kind}: expected {words!r} in {found[kind]['message']!r}"
