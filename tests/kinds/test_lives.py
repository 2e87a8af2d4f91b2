"""Every kind has a life on a real cluster that `make quick` runs: `tests/api/test_<kind>.py`, marked `quick`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from modelyard.kinds import ALL

if TYPE_CHECKING:
    from modelyard.kinds.contract import Kind


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_a_kind_has_a_quick_life(kind: Kind):
    tests = vars(import_module(f"tests.api.test_{kind.name}")).values()
    assert "quick" in {mark.name for test in tests for mark in getattr(test, "pytestmark", ())}
