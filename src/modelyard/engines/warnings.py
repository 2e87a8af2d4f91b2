"""What engines say about wishes that they cannot fulfil, while they serve all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.engines.contract import Place


def ignored(what: str, remedy: str) -> Problem:
    """Return that a field has no effect, or not the one it says."""
    return Problem(Reason.FIELD_IGNORED, what, remedy)


def one_file(place: Place, engine: str) -> Iterator[Problem]:
    """Say that an engine which fetches by itself takes a whole repository, although the Model names a file of it."""
    if place.model and place.url:
        yield ignored(
            f"{engine} fetches the whole repository {place.model}, although the Model names one file of it",
            "name only the repository in spec.source of the Model",
        )
