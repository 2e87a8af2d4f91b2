"""Paths of case files."""

from __future__ import annotations

import pytest

from tests.kinds.paths import value_at

BODY = {"a": {"b.c/d": 1}, "list": [{"name": "x", "is": {"deep": [7, 8]}}, {"name": "y"}]}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", BODY),
        ('a["b.c/d"]', 1),
        ("list[name=x].is.deep[1]", 8),
        ("list[1].name", "y"),
        ("list[name=z].is", None),
        ("list[5]", None),
        ("a.nothing.here", None),
        ("nothing[0][name=x]", None),
    ],
)
def test_a_path_leads_to_what_stands_there(path: str, found: object):
    assert value_at(BODY, path) == found


def test_what_is_no_path_is_refused():
    with pytest.raises(ValueError, match="is not a path"):
        value_at(BODY, "list[name=x")
