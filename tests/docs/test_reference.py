"""The generated pages say what the kinds say, and the pages of the kinds lead to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from modelyard.kinds import ALL
from tools import reference

if TYPE_CHECKING:
    from modelyard.kinds.contract import Kind

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_generating_the_reference_again_changes_nothing() -> None:
    generated = reference.pages(ALL)
    stored = {path.relative_to(DOCS).as_posix() for path in (DOCS / "fields").iterdir()} | {"conditions.md"}
    assert stored == set(generated)
    assert [name for name, text in generated.items() if (DOCS / name).read_text() != text] == []


def test_a_generated_table_says_type_default_limits_and_meaning() -> None:
    page = (DOCS / "fields" / "mcp.md").read_text()
    assert "| `spec.server.port` | integer | `8080` | 1 to 65535 | The port the server listens on. |" in page
    assert "| `spec.env` | list of EnvVar |  | at most 256 entries |" in page


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_the_page_of_a_kind_leads_to_all_its_fields(kind: Kind) -> None:
    assert f"(../fields/{kind.name}.md)" in (DOCS / "kinds" / f"{kind.name}.md").read_text()
