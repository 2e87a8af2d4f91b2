"""What holds of every kind in every situation that a case file describes.

A check is written for one case and becomes one test for each kind: single tests would be many thousands, and cost more
than what they check.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from modelyard.core import names
from modelyard.core.plan import Child, CreateOnly, Outcome
from modelyard.core.policy import Policy
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.core.resources import SERVICE
from modelyard.kinds import ALL, served
from modelyard.kinds.contract import Asked, Every
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.modeldeployment.naming import CLOSED
from modelyard.runtime.apply import full_body
from tests.kinds.cases import VALID_CASES, play, played
from tests.kinds.restricted import violations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from modelyard.core.objects import Json
    from modelyard.kinds.contract import Kind
    from tests.kinds.cases import Case, Situation

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(rf"{DNS_LABEL.pattern}(\.{DNS_LABEL.pattern})*")
SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
PORT_NAME = re.compile(r"[a-z]([-a-z0-9]{0,13}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
QUALIFIED = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
SERVED = served(Policy(door=True))
LIKE_A_TIME = re.compile(r"\d{4}-\d\d-\d\d|\b\d\d?:\d\d\b|\b\d+(\.\d+)?(ms|s|m|h)\b|\bago\b")


def every_case(check: Callable[[str], None], kinds: tuple[Kind, ...] = SERVED) -> Callable[[Kind], None]:
    """Turn a check of the case of this name into a test of all cases of a kind, which shows the first that fails."""

    @pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.name)
    def test(kind: Kind) -> None:
        failed: dict[str, Exception] = {}
        for name in (name for name, (of, _) in VALID_CASES.items() if of is kind):
            try:
                check(name)
            except Exception as error:
                failed[name] = error
        for first in failed.values():
            first.add_note("It fails in: " + "; ".join(failed))
            raise first

    return test


def every_case_with_status(check: Callable[[str], None]) -> Callable[[Kind], None]:
    """Do the same for the kinds that have a status."""
    return every_case(check, ALL)


def templates(found: Situation) -> Iterator[Json]:
    bodies = (child.body.get("spec", {}) for child in found.plan.apply)
    return (spec["template"] for spec in bodies if "template" in spec)


def containers(template: Json) -> list[Json]:
    return [*template["spec"]["containers"], *template["spec"].get("initContainers", ())]


def encoded(*values: Any) -> list[bytes]:
    return [msgspec.json.encode(value, order="deterministic") for value in values]


def world(found: Situation) -> list[bytes]:
    read = (items for read, items in found.seen.found.items() if not isinstance(read, Every))
    return encoded(found.obj, *(item.to_dict() for items in read for item in items.values()))


@every_case
def test_planning_again_changes_neither_the_plan_nor_what_it_was_made_of(name: str):
    found = played(name)
    before, planned = world(found), encoded(found.plan)
    for child in found.plan.apply:
        if isinstance(child, Child):
            full_body(found.stored, child)
    make_plan = found.kind.finalize if found.stored.meta.deleting and found.kind.finalize else found.kind.plan
    again = make_plan(found.obj, found.seen, *found.kind.decided(found.obj, found.seen))
    assert (world(found), encoded(found.plan), encoded(again)) == (before, planned, planned)


@every_case
def test_a_kind_writes_and_deletes_only_what_it_declares(name: str):
    found = played(name)
    assert {child.resource for child in found.plan.apply if isinstance(child, Child)} <= set(found.kind.children)
    assert {child.resource for child in found.plan.apply if isinstance(child, CreateOnly)} <= set(found.kind.creates)
    assert {ref.resource for ref in found.plan.delete} <= set(found.kind.deletes)


@every_case
def test_a_kind_reads_only_what_it_declares(name: str):
    found = played(name)
    read = {read.resource for read in found.reads if not isinstance(read, Asked)}
    assert read <= {*found.kind.looks_at, *found.kind.children, *found.kind.creates}
    assert {type(read.check) for read in found.reads if isinstance(read, Asked)} <= set(found.kind.asks)


@every_case
def test_no_child_is_planned_twice(name: str):
    children = [(child.resource, child.name) for child in played(name).plan.apply]
    assert len(children) == len(set(children))


@every_case
def test_a_blocked_plan_touches_nothing(name: str):
    plan = played(name).plan
    assert not (plan.blocked and (plan.apply or plan.delete))


@every_case
def test_the_body_of_a_child_says_what_the_child_is(name: str):
    for child in played(name).plan.apply:
        assert (child.body["apiVersion"], child.body["kind"]) == (child.resource.api_version, child.resource.kind)
        assert child.body["metadata"]["name"] == child.name
        assert "replicas" not in child.body.get("spec", {}), "the number of pods is kept apart from the body"


@every_case
def test_no_variable_is_set_twice(name: str):
    for template in templates(played(name)):
        for container in containers(template):
            variables = [entry["name"] for entry in container.get("env", ())]
            assert len(variables) == len(set(variables))


@every_case
def test_pods_are_restricted_unless_the_user_asks_for_more(name: str):
    case: Case = VALID_CASES[name][1]
    found = [wrong for template in templates(played(name)) for wrong in violations(template)]
    assert bool(found) == case.unrestricted, found


@every_case
def test_pods_get_no_token(name: str):
    assert all(one["spec"]["automountServiceAccountToken"] is False for one in templates(played(name)))


@every_case
def test_names_labels_and_annotations_are_valid(name: str):
    found = played(name)
    for child in found.plan.apply:
        assert (SERVICE_NAME if child.resource == SERVICE else DNS_SUBDOMAIN).fullmatch(child.name)
        check_metadata((full_body(found.stored, child) if isinstance(child, Child) else child.body)["metadata"])
    for template in templates(found):
        check_metadata(template["metadata"])
        check_pod_names(template["spec"])


def check_metadata(meta: Json) -> None:
    for key, value in meta.get("labels", {}).items():
        assert QUALIFIED.fullmatch(key)
        assert LABEL_VALUE.fullmatch(value)
    assert all(QUALIFIED.fullmatch(key) for key in meta.get("annotations", {}))


def check_pod_names(spec: Json) -> None:
    volumes = [volume["name"] for volume in spec.get("volumes", ())]
    assert len(volumes) == len(set(volumes))
    assert all(DNS_LABEL.fullmatch(volume) for volume in volumes)
    for container in [*spec["containers"], *spec.get("initContainers", ())]:
        assert DNS_LABEL.fullmatch(container["name"])
        assert all(PORT_NAME.fullmatch(port["name"]) for port in container.get("ports", ()))
        assert {mount["name"] for mount in container.get("volumeMounts", ())} <= set(volumes)


@every_case
def test_children_and_pods_are_labelled_as_those_of_their_object(name: str):
    found = played(name)
    ours = {names.MANAGED_BY: names.MANAGER}
    its_own = {**ours, names.KIND_LABEL: found.kind.name, names.INSTANCE_LABEL: names.short(found.obj.meta.name)}
    for child in found.plan.apply:
        wanted = its_own if isinstance(child, Child) else ours
        assert wanted.items() <= child.body["metadata"]["labels"].items()
    assert all(its_own.items() <= template["metadata"]["labels"].items() for template in templates(found))


@every_case
def test_the_selector_of_pods_and_services_finds_the_pods(name: str):
    found = played(name)
    labels = [template["metadata"]["labels"] for template in templates(found)]
    for child in found.plan.apply:
        selector = child.body.get("spec", {}).get("selector", {})
        wanted = selector.get("matchLabels", selector)
        # That of a Service which lets nothing in any more finds none on purpose. Without a template in the plan, one
        # leads to pods that are left as they are.
        assert not labels or not wanted or CLOSED in wanted or any(wanted.items() <= one.items() for one in labels)


@every_case_with_status
def test_a_status_is_json_that_its_own_type_can_read(name: str):
    found = played(name)
    text = msgspec.json.encode(found.said)
    assert msgspec.json.decode(text, type=found.kind.status) == found.said


@every_case_with_status
def test_a_status_that_changes_nothing_uses_only_what_was_read(name: str):
    found = played(name)
    # After a plan that changes children, what was not read counts as unanswered; at rest it is an error.
    found.kind.summarise(found.obj, found.seen, Outcome(), *found.kind.decided(found.obj, found.seen))


@every_case_with_status
def test_a_status_states_every_condition_of_its_kind_for_this_generation(name: str):
    found = played(name)
    stated = {entry["type"]: entry for entry in own_conditions(found)}
    assert set(found.kind.conditions) <= stated.keys()
    assert {entry.type for entry in found.said.conditions} == stated.keys(), "a type that the kind does not list"
    assert found.status["observedGeneration"] == found.stored.meta.generation
    for entry in stated.values():
        assert entry["observedGeneration"] == found.stored.meta.generation
        assert entry["reason"] in set(Reason)
        assert entry["lastTransitionTime"]


@every_case_with_status
def test_ready_is_said_in_one_voice(name: str):
    kind, status = played(name).kind, played(name).status
    truths = {entry["type"]: entry["status"] for entry in status["conditions"]}
    ready = truths["Ready"] == "True"
    assert status.get("ready", ready) == ready
    phase = status.get("phase", "Ready" if ready else "")
    # Of a Gateway it is the state of its pods, which may run and serve nothing.
    assert (phase in ("Ready", "Running")) == ready or (kind is GATEWAY and phase == "Running")


@every_case
def test_a_problem_comes_with_a_remedy(name: str):
    found = played(name)
    assert not found.plan.blocked or found.plan.blocked.remedy
    for entry in own_conditions(found):
        if entry["reason"] in PROBLEMS:
            message, _, remedy = entry["message"].rpartition("; ")
            assert message, f"{entry['reason']} names no way out: {entry['message']!r}"
            assert remedy


@every_case
def test_no_message_holds_a_time_that_would_change_by_itself(name: str):
    for entry in own_conditions(played(name)):
        assert not LIKE_A_TIME.search(entry["message"]), entry["message"]


def own_conditions(found: Situation) -> list[Json]:
    own = {*found.kind.conditions, *found.kind.optional_conditions}
    return [entry for entry in found.status["conditions"] if entry["type"] in own]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_what_a_kind_deletes_is_its_own(kind: Kind):
    assert set(kind.deletes) <= {*kind.children, *kind.creates}


@every_case
def test_the_same_situation_gives_the_same_plan_and_status(name: str):
    """The last check: it also shows that none of those above has changed what they share."""
    one, other = played(name), play(*VALID_CASES[name])
    assert (one.plan, one.status) == (other.plan, other.status)
