"""The cache never goes back in time, and knows whose child is whose."""

from __future__ import annotations

from functools import partial

import pytest

from modelyard.core import names
from modelyard.core.objects import Stored
from modelyard.core.resources import DEPLOYMENT, POD, Key, Ref
from modelyard.runtime.cache import EVICTED_SECONDS, MAX_REMEMBERED, Cache, OwnerKey, owner_of
from tests.runtime.objects import nobody, stored
from tests.support.clock import VirtualClock

KEY = Key("default", "a")
OWNER = OwnerKey("mcp", "default", "tools")


class Heard:
    """A cache, and what it told of its changes: revisions before and after, 0 for nothing."""

    def __init__(self) -> None:
        self.changes: list[tuple[int, int]] = []
        self.written: list[tuple[int, int]] = []
        self.cache = Cache(DEPLOYMENT, partial(_note, self.changes), partial(_note, self.written))

    @property
    def revision(self) -> int:
        item = self.cache.get(KEY)
        return item.meta.revision if item else 0


def _note(changes: list[tuple[int, int]], old: Stored | None, new: Stored | None) -> None:
    changes.append((old.meta.revision if old else 0, new.meta.revision if new else 0))


@pytest.fixture
def heard() -> Heard:
    return Heard()


def ref(name: str = "a", uid: str = "") -> Ref:
    return Ref(DEPLOYMENT, Key("default", name), uid or f"uid-of-{name}")


def test_what_the_watch_brings_is_kept_and_told(heard: Heard):
    heard.cache.upsert(stored("a", 1))
    heard.cache.upsert(stored("a", 3))
    assert (heard.revision, heard.changes) == (3, [(0, 1), (1, 3)])


@pytest.mark.parametrize("revision", [2, 3])
def test_an_older_or_equal_version_is_ignored(heard: Heard, revision: int):
    heard.cache.upsert(stored("a", 3))
    heard.cache.upsert(stored("a", revision, spec={"old": True}))
    assert (heard.revision, heard.changes) == (3, [(0, 3)])
    assert heard.cache.get(KEY) == stored("a", 3)


def test_versions_are_compared_as_numbers(heard: Heard):
    heard.cache.upsert(stored("a", 9))
    heard.cache.upsert(stored("a", 10))
    assert heard.revision == 10


def test_our_own_write_is_known_and_told_at_once_and_its_echo_is_no_news(heard: Heard):
    heard.cache.record_write(stored("a", 5))
    heard.cache.upsert(stored("a", 5))
    assert (heard.revision, heard.written, heard.changes) == (5, [(0, 5)], [])


def test_news_from_before_our_write_does_not_undo_it(heard: Heard):
    heard.cache.record_write(stored("a", 5))
    heard.cache.upsert(stored("a", 4))
    assert heard.revision == 5


def test_an_answer_that_comes_late_does_not_undo_newer_news(heard: Heard):
    heard.cache.upsert(stored("a", 7))
    heard.cache.record_write(stored("a", 5))
    assert (heard.revision, heard.written) == (7, [])


def test_a_successor_of_the_same_name_takes_its_place(heard: Heard):
    heard.cache.upsert(stored("a", 3, uid="first"))
    heard.cache.upsert(stored("a", 6, uid="second"))
    heard.cache.remove(stored("a", 5, uid="first"))
    assert (heard.revision, heard.changes) == (6, [(0, 3), (3, 6)])


def test_what_is_gone_is_told_once(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.remove(stored("a", 4))
    heard.cache.remove(stored("a", 4))
    assert (heard.revision, heard.changes) == (0, [(0, 3), (3, 0)])


def test_news_of_a_removal_from_before_our_write_is_not_believed(heard: Heard):
    # Somebody took our label away, and we have put it back already.
    heard.cache.record_write(stored("a", 6))
    heard.cache.remove(stored("a", 5))
    assert heard.revision == 6


def test_what_we_deleted_does_not_return_with_old_news(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.record_delete(ref())
    heard.cache.upsert(stored("a", 3))
    heard.cache.upsert(stored("a", 2))
    assert heard.revision == 0


def test_the_end_of_what_we_deleted_wakes_its_owner(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.record_delete(ref())
    heard.changes.clear()
    heard.cache.remove(stored("a", 8))
    assert heard.changes == [(8, 0)]


def test_an_object_that_is_still_finalizing_after_our_delete_is_seen(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.record_delete(ref())
    heard.cache.upsert(stored("a", 4))
    assert heard.revision == 4


def test_an_object_that_was_seen_finalizing_before_the_answer_to_our_delete_stays(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.upsert(stored("a", 4, finalizing=True))
    heard.cache.record_delete(ref())
    assert heard.revision == 4
    heard.cache.remove(stored("a", 5))
    assert heard.revision == 0


def test_a_successor_of_what_we_deleted_is_seen(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.record_delete(ref())
    heard.cache.upsert(stored("a", 9, uid="second"))
    assert heard.revision == 9


def test_a_delete_of_an_earlier_object_does_not_touch_its_successor(heard: Heard):
    heard.cache.upsert(stored("a", 9, uid="second"))
    heard.cache.record_delete(ref(uid="first"))
    assert heard.revision == 9


def test_a_late_answer_does_not_bring_back_what_is_gone(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.remove(stored("a", 8))
    heard.cache.record_write(stored("a", 7))
    assert heard.revision == 0


def test_an_object_that_matches_again_is_seen_again(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.remove(stored("a", 4))
    heard.cache.upsert(stored("a", 5))
    assert heard.revision == 5


def test_a_list_from_before_our_delete_does_not_bring_it_back(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.record_delete(ref())
    heard.cache.replace([stored("a", 3)], revision=9)
    assert heard.revision == 0


def test_only_so_many_of_those_that_are_gone_are_remembered(heard: Heard):
    heard.cache.remove(stored("a", 3))
    for number in range(MAX_REMEMBERED):
        heard.cache.remove(stored(f"other-{number}", 3))
    assert len(heard.cache._tombstones) == MAX_REMEMBERED


def test_a_cache_is_not_synced_before_its_first_list(heard: Heard):
    heard.cache.upsert(stored("a", 1))
    assert not heard.cache.synced


def test_a_list_fills_the_cache_and_says_so(heard: Heard):
    heard.cache.replace([stored("a", 1), stored("b", 2)], revision=5)
    assert heard.cache.synced
    assert (len(heard.cache), heard.changes) == (2, [(0, 1), (0, 2)])
    assert {item.meta.name for item in heard.cache.all()} == {"a", "b"}


def test_a_list_drops_what_vanished_while_nobody_watched(heard: Heard):
    heard.cache.replace([stored("a", 1), stored("b", 2)], revision=5)
    heard.changes.clear()
    heard.cache.replace([stored("b", 2)], revision=9)
    assert (heard.revision, heard.changes) == (0, [(1, 0)])


def test_a_list_tells_only_what_changed(heard: Heard):
    heard.cache.replace([stored("a", 1), stored("b", 2)], revision=5)
    heard.changes.clear()
    heard.cache.replace([stored("a", 1), stored("b", 8)], revision=9)
    assert heard.changes == [(2, 8)]


def test_a_list_from_before_our_write_drops_nothing(heard: Heard):
    heard.cache.record_write(stored("a", 7))
    heard.cache.replace([], revision=6)
    assert heard.revision == 7


def test_a_list_from_before_our_write_undoes_nothing(heard: Heard):
    heard.cache.record_write(stored("a", 7, uid="second"))
    heard.cache.replace([stored("a", 3, uid="first")], revision=6)
    assert heard.revision == 7


def test_a_list_shows_that_what_we_deleted_is_gone_and_wakes_its_owner(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.record_delete(ref())
    heard.changes.clear()
    heard.cache.replace([], revision=9)
    assert (heard.revision, heard.changes) == (0, [(3, 0)])


def test_a_list_from_before_our_delete_leaves_its_end_to_the_watch(heard: Heard):
    heard.cache.upsert(stored("a", 3))
    heard.cache.record_delete(ref())
    heard.cache.replace([stored("a", 3)], revision=9)
    heard.changes.clear()
    heard.cache.remove(stored("a", 10))
    assert heard.changes == [(10, 0)]


def test_after_a_restore_even_what_we_deleted_is_back(heard: Heard):
    heard.cache.replace([stored("a", 3)], revision=80)
    heard.cache.record_delete(ref())
    heard.cache.replace([stored("a", 3)], revision=50)
    assert heard.revision == 3


def test_after_a_restore_the_list_is_believed_in_everything(heard: Heard):
    heard.cache.replace([stored("a", 3), stored("gone", 4)], revision=5)
    heard.cache.upsert(stored("a", 80))
    heard.cache.upsert(stored("lost", 81))
    heard.cache.remove(stored("gone", 90))
    heard.changes.clear()
    heard.cache.replace([stored("a", 3), stored("gone", 4)], revision=50)
    assert {item.meta.name: item.meta.revision for item in heard.cache.all()} == {"a": 3, "gone": 4}
    assert heard.changes == [(80, 3), (0, 4), (81, 0)]
    heard.cache.upsert(stored("a", 51))
    assert heard.revision == 51


def test_a_restore_that_leaves_a_gap_in_the_revisions_is_believed_too(heard: Heard):
    heard.cache.upsert(stored("a", 80))
    heard.cache.upsert(stored("b", 81))
    heard.cache.remove(stored("b", 90))
    heard.cache.replace([stored("a", 3), stored("b", 4)], revision=1_000_000)
    assert {item.meta.name: item.meta.revision for item in heard.cache.all()} == {"a": 3, "b": 4}


def test_children_are_found_by_their_owner(heard: Heard):
    heard.cache.upsert(stored("a", 1, owner="tools:u1"))
    heard.cache.upsert(stored("b", 2, owner="other:u2"))
    heard.cache.upsert(stored("c", 3))
    assert set(heard.cache.owned(OWNER, "u1")) == {KEY}


def test_children_of_an_earlier_owner_of_the_same_name_are_not_ours(heard: Heard):
    heard.cache.upsert(stored("a", 1, owner="tools:the-first"))
    assert heard.cache.owned(OWNER, "the-second") == {}
    assert set(heard.cache.owned(OWNER, "the-first")) == {KEY}


def test_children_in_another_namespace_are_not_ours(heard: Heard):
    heard.cache.upsert(stored("a", 1, owner="tools:u1", namespace="elsewhere"))
    assert heard.cache.owned(OWNER, "u1") == {}


def test_a_child_that_changes_hands_is_found_by_its_new_owner_only(heard: Heard):
    heard.cache.upsert(stored("a", 1, owner="tools:u1"))
    heard.cache.upsert(stored("a", 2, owner="other:u2"))
    assert heard.cache.owned(OWNER, "u1") == {}
    assert set(heard.cache.owned(OwnerKey("mcp", "default", "other"), "u2")) == {KEY}


def test_a_child_that_is_gone_is_not_found(heard: Heard):
    heard.cache.upsert(stored("a", 1, owner="tools:u1"))
    heard.cache.remove(stored("a", 2, owner="tools:u1"))
    assert heard.cache.owned(OWNER, "u1") == {}


def test_pods_belong_to_whom_their_labels_name():
    labels = {names.KIND_LABEL: "mcp", names.INSTANCE_LABEL: "tools"}
    pods = Cache(POD, nobody, nobody)
    pods.upsert(stored("p", 1, resource=POD, labels=labels))
    pods.upsert(stored("q", 2, resource=POD, labels={names.KIND_LABEL: "mcp"}))
    assert set(pods.owned(OWNER, "whatever")) == {Key("default", "p")}


def test_an_owner_with_a_long_name_is_known_by_the_short_one():
    long = "a" * 100
    assert owner_of(stored("a", 1, owner=f"{long}:u1")) == OwnerKey("mcp", "default", names.short(long))


def test_an_object_without_a_controller_belongs_to_nobody():
    assert owner_of(stored("a", 1)) is None


def labelled(name: str, revision: int, **labels: str) -> Stored:
    return Stored.from_dict(
        DEPLOYMENT,
        {"metadata": {"name": name, "namespace": "default", "resourceVersion": str(revision), "labels": labels}},
    )


def names_of(heard: Heard, team: str) -> set[str]:
    return {item.meta.name for item in heard.cache.labelled("team", team)}


def test_objects_are_found_by_a_label_before_and_after_it_was_first_asked_for(heard: Heard):
    heard.cache.upsert(labelled("early", 1, team="red"))
    assert names_of(heard, "red") == {"early"}
    heard.cache.upsert(labelled("late", 2, team="red"))
    heard.cache.upsert(labelled("other", 3, team="blue"))
    heard.cache.upsert(labelled("plain", 4))
    assert names_of(heard, "red") == {"early", "late"}


def test_an_object_is_not_found_by_a_label_that_it_lost(heard: Heard):
    heard.cache.upsert(labelled("a", 1, team="red"))
    assert names_of(heard, "red") == {"a"}
    heard.cache.upsert(labelled("a", 2, team="blue"))
    assert (names_of(heard, "red"), names_of(heard, "blue")) == (set(), {"a"})
    heard.cache.remove(labelled("a", 3, team="blue"))
    assert names_of(heard, "blue") == set()


LABELS = {names.KIND_LABEL: "mcp", names.INSTANCE_LABEL: "tools"}
PUSHED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}


def test_the_last_words_of_a_pod_reach_its_owner_once_and_it_looks_again_without_them():
    changes: list[tuple[bool, bool]] = []
    cache = Cache(POD, lambda old, new: changes.append((old is not None, new is not None)), nobody)
    cache.upsert(stored("quiet", 1, resource=POD, labels=LABELS))
    cache.upsert(stored("pushed", 2, resource=POD, labels=LABELS))
    cache.remove(stored("quiet", 3, resource=POD, labels=LABELS))
    cache.remove(stored("pushed", 4, resource=POD, labels=LABELS, status=PUSHED))
    changes.clear()
    assert (list(cache.owned(OWNER, "")), changes) == ([Key("default", "pushed")], [(True, False)])
    assert (cache.owned(OWNER, ""), len(cache), len(changes)) == ({}, 0, 1)


def test_the_last_words_of_a_pod_are_history_when_its_owner_looks_much_later():
    # A standby that becomes the leader, or an owner that was paused: what happened was told, or is long over.
    clock = VirtualClock()
    cache = Cache(POD, nobody, nobody, monotonic=clock.monotonic)
    cache.upsert(stored("pushed", 2, resource=POD, labels=LABELS))
    cache.remove(stored("pushed", 4, resource=POD, labels=LABELS, status=PUSHED))
    clock.advance(EVICTED_SECONDS)
    assert cache.owned(OWNER, "") == {}
