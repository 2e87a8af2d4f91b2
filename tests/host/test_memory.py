"""The memory of a host: budget, need, reservations, and what systems say about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.host.memory import (
    GIB,
    MemoryLedger,
    Pressure,
    budget_of,
    gpu_memory,
    measure_available,
    measure_capacity,
    need_of,
    pressure_of,
    vm_stat_available,
)
from modelyard.host.refusals import LoadFailed

VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                              100000.
Pages active:                            500000.
Pages inactive:                           20000.
Pages speculative:                         3000.
Pages throttled:                              0.
Pages wired down:                        200000.
Pages purgeable:                           4000.
"Translation faults":                 123456789.
"""

steps = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 150)), max_size=30)


@pytest.mark.parametrize(
    ("total", "share"), [(16 * GIB, 0.67), (36 * GIB, 0.67), (36 * GIB + 1, 0.75), (128 * GIB, 0.75)]
)
def test_a_large_machine_gives_a_larger_share(total: int, share: float) -> None:
    assert budget_of(total) == int(total * share)


def test_a_model_needs_more_than_its_files() -> None:
    assert need_of(10 * GIB) == 12 * GIB + 512 * 2**20


@given(steps)
def test_reservations_never_exceed_the_budget(asked: list[tuple[str, int]]) -> None:
    ledger, held = MemoryLedger(200), dict.fromkeys("abc", 0)
    for model, need in asked:
        fits = need + sum(held.values()) - held[model] <= 200
        assert ledger.fits(model, need) == fits
        if fits:
            ledger.reserve(model, need)
            held[model] = need
        else:
            with pytest.raises(LoadFailed, match=f"{need} bytes are needed"):
                ledger.reserve(model, need)
        assert ledger.free == 200 - sum(held.values()) >= 0
    for model in held:
        ledger.release(model)
        ledger.release(model)
    assert ledger.free == 200


@pytest.mark.parametrize(
    ("available", "pressure"),
    [(None, Pressure.NORMAL), (0.5, Pressure.NORMAL), (0.2, Pressure.NORMAL), (0.19, Pressure.WARNING),
     (0.1, Pressure.WARNING), (0.09, Pressure.CRITICAL), (0.0, Pressure.CRITICAL)],
)  # fmt: skip
def test_pressure_follows_what_is_available(available: float | None, pressure: Pressure) -> None:
    assert pressure_of(available) is pressure


@pytest.mark.parametrize(
    ("before", "available", "pressure"),
    [
        (Pressure.WARNING, 0.21, Pressure.WARNING),
        (Pressure.WARNING, 0.25, Pressure.NORMAL),
        (Pressure.WARNING, 0.11, Pressure.WARNING),
        (Pressure.CRITICAL, 0.11, Pressure.CRITICAL),
        (Pressure.CRITICAL, 0.16, Pressure.WARNING),
        (Pressure.CRITICAL, 0.24, Pressure.WARNING),
        (Pressure.CRITICAL, 0.25, Pressure.NORMAL),
        (Pressure.CRITICAL, None, Pressure.NORMAL),
    ],
)
def test_pressure_is_over_when_there_is_clearly_more_memory(
    before: Pressure, available: float | None, pressure: Pressure
) -> None:
    assert pressure_of(available, before) is pressure


def test_memory_that_wavers_about_a_limit_changes_the_pressure_once() -> None:
    level, seen = Pressure.NORMAL, []
    for available in (0.21, 0.19, 0.21, 0.19, 0.22, 0.18, 0.2):
        level = pressure_of(available, level)
        seen.append(level)
    assert seen == [Pressure.NORMAL, *[Pressure.WARNING] * 6]


def test_the_memory_that_macos_can_give_back_counts_as_available() -> None:
    assert vm_stat_available(VM_STAT) == 127_000 * 16_384
    assert vm_stat_available("no such program") is None


def test_the_memory_of_all_gpus_counts() -> None:
    assert gpu_memory("24564\n24564\n") == 2 * 24564 * 2**20
    assert gpu_memory("[N/A]\n") == gpu_memory("") == 0


async def test_a_budget_that_is_set_counts_and_one_is_found_otherwise() -> None:
    assert (await measure_capacity(5)).budget == 5
    assert (await measure_capacity(None)).budget > 0


async def test_this_machine_tells_what_is_available() -> None:
    available = await measure_available()
    assert available is not None
    assert 0 < available <= 1
