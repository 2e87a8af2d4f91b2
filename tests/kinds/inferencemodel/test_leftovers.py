"""What an InferenceModel leaves on a host that is away when it is deleted, and when the host is freed of it."""

from __future__ import annotations

from msgspec.structs import replace

from modelyard.core.hosts import Protocol
from modelyard.kinds.inferencehost import INFERENCE_HOST
from modelyard.kinds.inferencemodel import INFERENCE_MODEL
from tests.kinds.inferencemodel.fleet import Daemon, Fleet

GONE = {"model": "org/chat", "owner": "default/chat"}


def left_behind(**spec: str) -> tuple[Fleet, Daemon]:
    """Return a fleet whose only host is away, and whose InferenceModel has gone meanwhile."""
    fleet = Fleet()
    daemon = fleet.host("mac", **spec)
    fleet.model()
    fleet.settle()
    daemon.up = False
    fleet.settle(20)
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.settle(310, steps=31)
    assert not fleet.exists()
    fleet.asked()
    return fleet, daemon


def test_a_host_that_returns_unloads_what_an_inferencemodel_has_left_there_and_is_asked_once() -> None:
    fleet, daemon = left_behind()
    assert fleet.status("mac", INFERENCE_HOST)["leftovers"] == [GONE]
    daemon.up = True
    fleet.settle(10)
    assert (fleet.asked(), daemon.models) == (["mac: unload org/chat"], {})
    assert fleet.status("mac", INFERENCE_HOST)["leftovers"] == []
    before = fleet.writes
    fleet.settle(600, steps=10)
    assert (fleet.asked(), fleet.writes) == ([], before)


def test_a_change_of_the_leader_while_the_host_is_away_forgets_nothing() -> None:
    fleet, daemon = left_behind()
    fleet.change_leader()
    daemon.up = True
    fleet.settle(10)
    assert fleet.asked() == ["mac: unload org/chat"]


def test_what_another_has_asked_for_since_then_is_left_alone() -> None:
    fleet, daemon = left_behind()
    daemon.models["org/chat"] = replace(daemon.models["org/chat"], owner="elsewhere/chat")
    daemon.up = True
    fleet.settle(10)
    assert fleet.asked() == []
    assert fleet.status("mac", INFERENCE_HOST)["leftovers"] == []


def test_what_was_never_ours_is_left_alone() -> None:
    fleet, daemon = left_behind()
    daemon.models["org/other"] = replace(daemon.models["org/chat"], id="org/other")
    daemon.up = True
    fleet.settle(10)
    assert fleet.asked() == ["mac: unload org/chat"]


def test_an_inferencemodel_that_wants_it_again_gets_it() -> None:
    fleet, daemon = left_behind()
    fleet.model()
    fleet.settle()
    daemon.up = True
    fleet.settle(10)
    fleet.settle(60, steps=6)
    assert fleet.placements() == {"mac": "Ready"}
    assert fleet.status("mac", INFERENCE_HOST)["leftovers"] == []


def test_an_inferencemodel_that_lives_unloads_by_itself() -> None:
    fleet = Fleet()
    daemon = fleet.host("mac")
    fleet.model()
    fleet.settle()
    daemon.up = False
    fleet.edit(INFERENCE_MODEL, "chat", replicas=0)
    fleet.settle(600, steps=60)
    assert fleet.status("mac", INFERENCE_HOST)["leftovers"] == []
    daemon.up = True
    fleet.asked()
    fleet.settle(60, steps=6)
    assert fleet.asked() == ["mac: unload org/chat"]


def test_a_host_that_returns_while_it_is_deleted_is_freed_first() -> None:
    fleet, daemon = left_behind()
    fleet.delete(INFERENCE_HOST, "mac")
    daemon.up = True
    fleet.settle(10)
    assert fleet.asked() == ["mac: unload org/chat"]
    assert not fleet.exists("mac", INFERENCE_HOST)


def test_a_daemon_that_names_no_owners_is_left_alone() -> None:
    fleet, daemon = left_behind(protocol=Protocol.OLLAMA)
    daemon.up = True
    fleet.settle(10)
    assert fleet.status("mac", INFERENCE_HOST)["leftovers"] == []
    assert fleet.asked() == []
