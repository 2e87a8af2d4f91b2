"""Every case file holds, and together they leave no option out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import Struct

from modelyard.engines import ENGINES
from tests.engines.cases import Case, cases, launched, stand_together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.engines.contract import Launch

ALL = [pytest.param(engine, case, id=f"{engine}: {case.why}") for engine, case in cases()]


@pytest.mark.parametrize(("engine", "case"), ALL)
def test_an_engine_is_started_as_the_case_says(engine: str, case: Case):
    launch = launched(engine, case)
    _check_args(case, launch)
    assert case.command is None or launch.command == case.command
    assert case.env is None or launch.env == case.env
    assert case.image is None or ENGINES[engine].image(case.place.gpus) == case.image
    assert case.finishes is None or launch.finishes == case.finishes


@pytest.mark.parametrize(("engine", "case"), ALL)
def test_an_engine_warns_of_what_the_case_says_and_of_nothing_else(engine: str, case: Case):
    warnings = launched(engine, case).warnings
    assert [warning.reason for warning in warnings] == [wanted.reason for wanted in case.warns]
    assert all(wanted.says in warning.text for warning, wanted in zip(warnings, case.warns, strict=True))
    assert all(warning.remedy for warning in warnings)


@pytest.mark.parametrize(("engine", "case"), ALL)
def test_the_same_case_gives_the_same_launch(engine: str, case: Case):
    assert launched(engine, case) == launched(engine, case)


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_every_option_of_an_engine_is_shown_by_a_case(engine: str):
    options = ENGINES[engine].options
    shown = {path for name, case in cases() if name == engine for path in _written(case.options)}
    assert set(_fields(options)) - shown == set()


def _check_args(case: Case, launch: Launch) -> None:
    assert case.args is None or launch.args == case.args
    assert not case.has or stand_together(case.has, launch.args), launch.args
    assert set(case.lacks).isdisjoint(launch.args), launch.args


def _written(value: Any, prefix: str = "") -> Iterator[str]:
    for name, item in value.items() if isinstance(value, dict) else ():
        yield f"{prefix}{name}"
        yield from _written(item, f"{prefix}{name}.")


def _fields(struct: type[Struct], prefix: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(struct):
        yield f"{prefix}{field.encode_name}"
        for inner in _structs(field.type):
            yield from _fields(inner, f"{prefix}{field.encode_name}.")


def _structs(annotation: Any) -> Iterator[type[Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _structs(part)
