"""Placement: what must hold of every fleet, and how the choice is made."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from modelyard.core.hosts import MOST_MODELS
from modelyard.kinds.inferencemodel.placement import Current, Refusal, Room, Verdict, Wanted, fits, place

GIB = 1024**3
CHAT = Wanted("uid", "chat", 4 * GIB, 2)

MODELS = ("chat", "code", "talk")
amounts = st.integers(0, 12).map(lambda number: number * GIB)
holdings = st.dictionaries(st.sampled_from(MODELS), amounts, max_size=3)

TROUBLES: list[dict[str, Any]] = [
    *({"refusal": refusal} for refusal in Refusal),
    {"refusal": Refusal.CORDONED, "must_leave": True},
    {"refusal": Refusal.SELECTOR, "must_leave": True},
    {"refusal": Refusal.UNREACHABLE, "dead": True},
    {"refusal": Refusal.CORDONED, "must_leave": True, "dead": True},
    {"refusal": Refusal.FAILED, "gave_up": True},
]


@st.composite
def rooms(draw: st.DrawFn) -> dict[str, Room]:
    names = [f"host-{number}" for number in range(draw(st.integers(0, 6)))]
    return {
        name: Room(
            name,
            **draw(st.sampled_from([{}, {}, {}, *TROUBLES])),
            budget=draw(st.none() | amounts),
            free=draw(st.none() | amounts),
            max_models=draw(st.integers(0, 3)),
            resident=draw(holdings),
            taken=draw(holdings),
        )
        for name in names
    }


@st.composite
def situations(draw: st.DrawFn) -> tuple[Wanted, dict[str, Room], tuple[Current, ...]]:
    found = draw(rooms())
    wanted = Wanted("uid", "chat", draw(amounts), draw(st.integers(0, 4)))
    places = st.tuples(st.sampled_from(sorted(found)), st.sampled_from(("chat", "code"))) if found else st.nothing()
    current = tuple(
        Current(host, model, draw(amounts), ready=draw(st.booleans()))
        for host, model in sorted(draw(st.sets(places, max_size=5)) if found else ())
    )
    return wanted, found, current


def reserved(room: Room, current: tuple[Current, ...]) -> dict[str, int]:
    found = {**room.taken}
    for one in current:
        if one.host == room.name:
            found[one.model] = max(one.memory, found.get(one.model, 0))
    return found


@given(situations())
def test_no_host_is_over_committed(situation: tuple[Wanted, dict[str, Room], tuple[Current, ...]]):
    wanted, found, current = situation
    verdict = place(wanted, found, current)
    left = tuple(one for one in current if one not in verdict.drop)
    for name in verdict.add:
        room, before = found[name], reserved(found[name], left)
        after = {**before, wanted.model: max(wanted.memory, before.get(wanted.model, 0))}
        known = room.budget is not None and all(after.values())
        grows = after != before
        if known and grows and not room.max_models:
            assert sum(after.values()) <= room.budget
        if room.max_models:
            assert len(after) <= room.max_models


@given(situations())
def test_at_most_one_replica_of_a_model_is_on_a_host(situation: tuple[Wanted, dict[str, Room], tuple[Current, ...]]):
    wanted, found, current = situation
    verdict = place(wanted, found, current)
    staying = {one.host for one in current if one.model == wanted.model and one not in verdict.drop}
    assert len(set(verdict.add)) == len(verdict.add)
    assert not staying & set(verdict.add)
    assert all(found[name].refusal is None for name in verdict.add)


@given(situations())
def test_nothing_moves_without_a_cause(situation: tuple[Wanted, dict[str, Room], tuple[Current, ...]]):
    wanted, found, current = situation
    verdict = place(wanted, found, current)
    same = [one for one in current if one.model == wanted.model]
    for one in verdict.drop:
        room = found[one.host]
        caused = one.model != wanted.model or room.must_leave or room.dead or room.gave_up
        assert caused or len(same) > wanted.replicas


@given(situations())
def test_a_host_that_fits_is_used_while_replicas_are_missing(
    situation: tuple[Wanted, dict[str, Room], tuple[Current, ...]],
):
    wanted, found, current = situation
    if current:
        wanted, current = replace(wanted, replicas=4), ()
    fitting = [room for room in found.values() if room.refusal is None and fits(wanted, room, {}) is None]
    assert len(place(wanted, found, current).add) == min(wanted.replicas, len(fitting))


@given(situations())
def test_a_replica_that_serves_goes_only_when_enough_others_serve(
    situation: tuple[Wanted, dict[str, Room], tuple[Current, ...]],
):
    wanted, found, current = situation
    verdict = place(wanted, found, current)
    swapped = [one for one in verdict.drop if one.host in verdict.add]
    left = sum(one.ready for one in current if one not in verdict.drop)
    before = sum(one.ready for one in current)
    assert len(swapped) <= 1
    assert left >= min(before, wanted.replicas) - len(swapped) or len(current) > wanted.replicas


@given(situations())
def test_placing_twice_adds_nothing_more_unless_something_has_left(
    situation: tuple[Wanted, dict[str, Room], tuple[Current, ...]],
):
    wanted, found, current = situation
    verdict = place(wanted, found, current)
    if verdict.drop:
        return
    again = current + tuple(Current(name, wanted.model, wanted.memory) for name in verdict.add)
    assert place(wanted, found, again).add == ()


def fleet(*names: str, **given: object) -> dict[str, Room]:
    return {name: Room(name, budget=16 * GIB, **given) for name in names}  # type: ignore[arg-type]


def test_a_better_host_that_appears_moves_nothing():
    current = (Current("a", "chat", 4 * GIB, ready=True), Current("b", "chat", 4 * GIB, ready=True))
    better = Room("c", budget=512 * GIB, free=512 * GIB)
    assert place(CHAT, fleet("a", "b") | {"c": better}, current) == Verdict()


def test_the_host_that_has_the_model_in_memory_is_preferred():
    warm = Room("z", budget=16 * GIB, resident={"chat": 4 * GIB}, taken={"code": GIB})
    assert place(replace(CHAT, replicas=1), fleet("a", "b") | {"z": warm}, ()).add == ("z",)


def test_models_are_spread_over_the_hosts_with_the_fewest():
    busy = Room("a", budget=64 * GIB, taken={"code": GIB, "talk": GIB})
    assert place(replace(CHAT, replicas=1), {"a": busy, **fleet("b")}, ()).add == ("b",)


def test_equal_hosts_are_chosen_by_the_uid_and_not_by_their_names():
    hosts = fleet(*"abcdefgh")
    chosen = {place(replace(CHAT, uid=str(number), replicas=1), hosts, ()).add for number in range(20)}
    assert len(chosen) > 3


def test_a_model_that_is_too_big_for_every_host_is_placed_nowhere():
    verdict = place(replace(CHAT, memory=20 * GIB), fleet("a", "b"), ())
    assert (verdict.add, verdict.refused) == ((), {Refusal.MEMORY: 2})


def test_memory_that_is_reported_as_taken_by_others_is_not_given_away():
    assert place(CHAT, fleet("a", free=3 * GIB), ()).refused == {Refusal.MEMORY: 1}


def test_memory_of_a_load_under_way_is_not_given_away_again():
    room = {"a": Room("a", budget=16 * GIB, free=10 * GIB, taken={"code": 8 * GIB})}
    assert place(CHAT, room, ()).refused == {Refusal.MEMORY: 1}


def test_a_model_of_unknown_size_has_its_host_alone():
    unknown = replace(CHAT, memory=0)
    assert place(unknown, fleet("a", taken={"code": GIB}), ()).refused == {Refusal.SHARED: 1}
    assert place(unknown, fleet("a"), ()).add == ("a",)
    assert place(CHAT, fleet("a", taken={"code": 0}), ()).refused == {Refusal.SHARED: 1}


def test_a_host_whose_number_of_models_is_limited_shares_also_what_is_unknown():
    room = {"a": Room("a", max_models=2, taken={"code": 0})}
    assert place(replace(CHAT, memory=0), room, ()).add == ("a",)
    assert place(CHAT, {"a": replace(room["a"], max_models=1)}, ()).refused == {Refusal.MODELS: 1}


def test_two_objects_with_the_same_model_share_one_load():
    room = fleet("a", free=0, resident={"chat": 4 * GIB}, taken={"chat": 4 * GIB})
    assert place(replace(CHAT, replicas=1), room, ()).add == ("a",)


def test_a_draining_host_is_left_one_replica_at_a_time_and_only_for_one_that_serves():
    hosts = fleet("c", "d") | fleet("a", "b", must_leave=True, refusal=Refusal.CORDONED)
    serving = tuple(Current(name, "chat", 4 * GIB, ready=True) for name in "ab")
    first = place(CHAT, hosts, serving)
    assert (len(first.add), first.drop) == (1, ())
    loading = (*serving, Current(first.add[0], "chat", 4 * GIB))
    assert place(CHAT, hosts, loading) == Verdict()
    ready = (*serving, Current(first.add[0], "chat", 4 * GIB, ready=True))
    second = place(CHAT, hosts, ready)
    assert second.drop == (serving[0],)
    assert len(second.add) == 0


def test_a_drain_that_no_host_has_room_for_is_blocked_and_the_replica_stays():
    hosts = fleet("a", must_leave=True, refusal=Refusal.CORDONED) | fleet("b", taken={"code": 15 * GIB})
    verdict = place(replace(CHAT, replicas=1), hosts, (Current("a", "chat", 4 * GIB, ready=True),))
    assert (verdict.add, verdict.drop, verdict.blocked) == ((), (), ("a",))


def test_a_dead_host_keeps_its_replica_until_another_one_serves():
    hosts = fleet("b") | fleet("a", dead=True, refusal=Refusal.UNREACHABLE)
    one = replace(CHAT, replicas=1)
    dead = Current("a", "chat", 4 * GIB)
    assert place(one, hosts, (dead,)) == Verdict(add=("b",))
    assert place(one, hosts, (dead, Current("b", "chat", 4 * GIB))) == Verdict()
    assert place(one, hosts, (dead, Current("b", "chat", 4 * GIB, ready=True))).drop == (dead,)


def test_a_host_that_returns_before_its_replacement_serves_keeps_its_replica():
    back, new = Current("a", "chat", 4 * GIB, ready=True), Current("b", "chat", 4 * GIB)
    assert place(replace(CHAT, replicas=1), fleet("a", "b"), (back, new)).drop == (new,)


def test_fewer_replicas_drop_what_serves_least_first():
    hosts = fleet("a", "b") | {"c": Room("c", budget=16 * GIB, refusal=Refusal.UNREACHABLE)}
    current = tuple(Current(name, "chat", 4 * GIB, ready=name == "a") for name in "abc")
    assert [one.host for one in place(replace(CHAT, replicas=1), hosts, current).drop] == ["c", "b"]


def test_no_replicas_drop_all():
    current = tuple(Current(name, "chat", 4 * GIB, ready=True) for name in "ab")
    assert set(place(replace(CHAT, replicas=0), fleet("a", "b"), current).drop) == set(current)


def test_another_model_is_loaded_beside_the_old_one_where_there_is_room():
    one = replace(CHAT, replicas=1)
    old = Current("a", "code", 4 * GIB, ready=True)
    assert place(one, fleet("a", "b"), (old,)) == Verdict(add=("a",))
    both = (old, Current("a", "chat", 4 * GIB, ready=True))
    assert place(one, fleet("a", "b"), both).drop == (old,)


def test_another_model_takes_the_place_of_the_old_one_host_by_host_where_there_is_none():
    hosts = {name: Room(name, budget=6 * GIB) for name in "ab"}
    old = tuple(Current(name, "code", 4 * GIB, ready=True) for name in "ab")
    first = place(CHAT, hosts, old)
    assert (first.add, first.drop) == (("a",), (old[0],))
    assert place(CHAT, hosts, (Current("a", "chat", 4 * GIB), old[1])).drop == ()
    second = place(CHAT, hosts, (Current("a", "chat", 4 * GIB, ready=True), old[1]))
    assert (second.add, second.drop) == (("b",), (old[1],))


def test_a_host_takes_no_more_models_than_its_status_can_hold():
    full = Room("a", budget=1 << 40, taken={f"org/{number}": 1 for number in range(MOST_MODELS - 1)})
    assert place(CHAT, {"a": full}, ()).add == ("a",)
    assert place(CHAT, {"a": replace(full, resident={"org/more": 1})}, ()).refused == {Refusal.MODELS: 1}
