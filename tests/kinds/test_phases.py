"""The table of phases: complete, reachable, and the same in code and docs."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from modelyard.core.conditions import Problem
from modelyard.core.plan import Outcome
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE, status
from modelyard.kinds.inferenceservice.phases import TABLE, TRANSIENT, PhaseFacts, ServicePhase, decide_phase
from tests.kinds.cases import ALL_CASES, play

if TYPE_CHECKING:
    from modelyard.kinds.inferenceservice.api import InferenceServiceStatus

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kinds" / "inferenceservice.md"

LASTING = Problem(Reason.CRASH_LOOP, "it crashes", "mend it")
PASSES = Problem(Reason.UNSCHEDULABLE, "no node", "wait")
WAITING = Problem(Reason.WAITING_FOR_MODEL, "it is fetched", "wait")
SHORTAGE = Problem(Reason.INSUFFICIENT_GPU, "no GPU", "wait")


def situations() -> list[PhaseFacts]:
    """Return every mixture of what can be known, as far as Kubernetes and `observed.py` let them come together."""
    mixtures = product(
        (None, WAITING),
        (None, LASTING),
        (None, LASTING, PASSES),
        (None, SHORTAGE),
        (0, 2),
        (0, 1, 2),
        (0, 2),
        (False, True),
    )
    return [
        PhaseFacts(
            model=model,
            obstacle=obstacle,
            trouble=trouble,
            shortage=shortage,
            scale_applied=applied,
            wanted=wanted,
            ready=ready,
            pods_left=left,
            complete=ready == wanted > 0,
        )
        for model, obstacle, trouble, shortage, wanted, ready, left, applied in mixtures
        if ready <= max(wanted, left) and not (ready == wanted > 0 and (trouble is PASSES or shortage))
    ]


def test_the_docs_have_the_table():
    section = PAGE.read_text().partition("## Phases")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|$", section, re.MULTILINE)
    assert rows == [(row.phase.value, row.when) for row in TABLE]


def test_every_row_is_the_first_to_fit_in_some_situation():
    first = {next(index for index, row in enumerate(TABLE) if row.holds(facts)) for facts in situations()}
    assert first == set(range(len(TABLE)))


def test_every_phase_is_in_the_table():
    assert {row.phase for row in TABLE} == set(ServicePhase)


def test_a_service_with_a_ready_pod_is_never_called_failed_pending_or_stopped():
    found = {decide_phase(facts).phase for facts in situations() if facts.ready}
    assert found == {ServicePhase.READY, ServicePhase.PROGRESSING}


def test_a_service_is_ready_only_when_it_is_complete_and_nothing_stands_in_the_way():
    ready = [facts for facts in situations() if decide_phase(facts).phase is ServicePhase.READY]
    assert ready
    assert all(facts.complete and facts.problem is None for facts in ready)


def test_what_passes_is_a_problem():
    assert TRANSIENT <= PROBLEMS


def test_a_child_that_cannot_be_made_fails_a_service_unless_it_serves():
    conflict = Outcome(problem=Problem(Reason.NAME_CONFLICT, "the Service chat is somebody else's", "rename one"))
    new, serving = (
        summarised(case, conflict) for case in ("a new service is being created", "a service is ready when")
    )
    assert (new.phase, serving.phase) == ("Failed", "Progressing")
    for found in (new, serving):
        said = {entry.type: entry for entry in found.conditions}
        assert (said["Ready"].status, said["Ready"].reason) == ("False", "NameConflict")
        assert (said["Degraded"].status, said["Degraded"].reason) == ("True", "NameConflict")


def test_what_passes_by_itself_does_not_fail_a_service():
    cleanup = Outcome(problem=Problem(Reason.WAITING_FOR_CLEANUP, "an earlier Deployment is still there"))
    found = summarised("a new service is being created", cleanup)
    said = {entry.type: entry for entry in found.conditions}
    assert (found.phase, said["Ready"].reason, said["Degraded"].status) == ("Creating", "WaitingForCleanup", "False")


def test_nobody_else_is_blamed_for_a_zero_that_we_could_not_raise_yet():
    away = Outcome(problem=Problem(Reason.API_UNAVAILABLE, "the API server cannot be reached"))
    found = summarised("a service that is to serve again", away)
    assert (found.phase, found.conditions[0].reason) == ("Creating", "ApiUnavailable")


def summarised(why: str, outcome: Outcome) -> InferenceServiceStatus:
    """Return the status of a case, had its plan come to this."""
    case = next(case for _, _, case in ALL_CASES if case.why.startswith(why))
    found = play(INFERENCE_SERVICE, case)
    return status.summarise(found.obj, found.seen, outcome, *found.kind.decided(found.obj, found.seen))
