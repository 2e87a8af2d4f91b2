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


def other_vendor(place: Place, image: str) -> Iterator[Problem]:
    """Say that an engine's own image has no code for the GPUs that it gets."""
    if place.default_image and place.gpus.count and place.gpus.vendor != "nvidia":
        yield ignored(
            f"{image} is built for GPUs of nvidia and cannot use those of {place.gpus.vendor}",
            f"set spec.image to a build for {place.gpus.vendor}",
        )
