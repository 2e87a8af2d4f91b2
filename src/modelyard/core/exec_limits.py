"""The longest string that Linux gives to a program, and what of a child would not start because of it.

`runtime/apply.py` asks before it writes a child: the API server stores longer ones, and their containers end at once
with the words "argument list too long", which name no field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

LONGEST: Final = 128 * 1024
"""Bytes of one argument or one variable, with what ends it: MAX_ARG_STRLEN of the kernel."""


def fits(name: str, value: str) -> bool:
    """Return whether a program can be given a variable."""
    # The kubelet turns `$$` into `$`.
    return len(f"{name}={value.replace('$$', '$')}".encode()) < LONGEST


def find_problem(body: Json) -> Problem | None:
    """Return the problem that a container of a child could not start; None: all can, or the child makes no pods."""
    pod = body.get("spec", {}).get("template", {}).get("spec", {})
    containers = (*pod.get("initContainers", ()), *pod.get("containers", ()))
    found = ((each["name"], what) for each in containers for what in _too_long(each))
    if (first := next(found, None)) is None:
        return None
    container, what = first
    return Problem(
        Reason.CONTAINER_CONFIG_INVALID,
        f"{what} of the container {container} has more than {LONGEST // 1024} KiB, and Linux starts no program with it",
        "shorten what becomes of it, or name fewer objects",
    )


def _too_long(container: Json) -> Iterator[str]:
    # What users wrote may be malformed in objects of a looser definition: the API server says so, in its own words.
    env = ((str(each.get("name")), str(each.get("value", ""))) for each in container.get("env", ()))
    yield from (f"the variable {name}" for name, value in env if not fits(name, value))
    given = (*container.get("command", ()), *container.get("args", ()))
    yield from (f"the argument {number}" for number, each in enumerate(given, 1) if not fits("", str(each)))
