"""The table of phases of a ModelDeployment: the same in code and docs, and every row is reached by a case."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from modelyard.core.plan import Outcome
from modelyard.kinds.modeldeployment import MODEL_DEPLOYMENT, status
from modelyard.kinds.modeldeployment.phases import TABLE
from tests.kinds.cases import VALID_CASES, played

if TYPE_CHECKING:
    from modelyard.kinds.modeldeployment.phases import PhaseFacts
    from tests.kinds.cases import Situation

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kinds" / "modeldeployment.md"


def test_the_docs_have_the_table():
    section = PAGE.read_text().partition("## Phases")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|$", section, re.MULTILINE)
    assert rows == [(row.phase.value, row.when) for row in TABLE]


def test_every_row_is_reached_by_a_case():
    found = [played(name) for name, (kind, _) in VALID_CASES.items() if kind is MODEL_DEPLOYMENT]
    facts = [phase_facts(case) for case in found]
    reached = {next(number for number, row in enumerate(TABLE) if row.holds(known)) for known in facts}
    assert reached == set(range(len(TABLE)))


def phase_facts(case: Situation) -> PhaseFacts:
    outcome = Outcome(problem=case.plan.blocked)
    return status.phase_facts(case.obj, case.seen, outcome, *case.kind.decided(case.obj, case.seen))
