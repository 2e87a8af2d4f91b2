"""Problems that engines report in the status while they serve: fields that they cannot honour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.engines.contract import Place


def ignored(what: str, remedy: str) -> Problem:
    """Return the problem of a field that has no effect, or not the one it promises."""
    return Problem(Reason.FIELD_IGNORED, what, remedy)


def one_file(place: Place, engine: str) -> Iterator[Problem]:
    """Yield a problem if an engine that fetches by itself takes a whole repository where the Model names one file."""
    if place.model and place.url:
        yield ignored(
            f"{engine} fetches the whole repository {place.model}, although the Model names one file of it",
            "name only the repository in spec.source of the Model",
        )


def other_vendor(place: Place, image: str) -> Iterator[Problem]:
    """Yield a problem if the engine's own image has no code for the GPUs of the pod."""
    if place.default_image and place.gpus.count and place.gpus.vendor != "nvidia":
        yield ignored(
            f"{image} is built for GPUs of nvidia and cannot use those of {place.gpus.vendor}",
            f"set spec.image to a build for {place.gpus.vendor}",
        )
