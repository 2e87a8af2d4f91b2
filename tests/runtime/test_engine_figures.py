"""Which pods are asked for their metrics, and what is published of the answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core import names
from modelyard.core.checks import Answer
from modelyard.core.checks.engine_metrics import AT, SAMPLES
from modelyard.core.objects import Stored
from modelyard.core.reasons import Reason
from modelyard.core.resources import POD
from modelyard.runtime.cache import OwnerKey
from modelyard.runtime.engine_figures import EngineFigures, Server
from modelyard.runtime.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from modelyard.core.checks import Check

CHAT = OwnerKey("inferenceservice", "team", "chat")
RUNNING = "vllm:num_requests_running"
TOKENS = "vllm:generation_tokens_total"


class ScriptedPoller:
    """A poller whose answers the test gives."""

    def __init__(self, wake: Callable[[Server], None]) -> None:
        self._wake = wake
        self.asked: dict[Server, Check] = {}
        self.answers: dict[Check, Answer] = {}

    def look(self, reader: Server, checks: Collection[Check]) -> dict[Check, Answer]:
        (self.asked[reader],) = checks
        return {}

    def known(self, reader: Server) -> dict[Check, Answer]:
        return self.answers

    def forget(self, reader: Server) -> None:
        del self.asked[reader]

    async def run(self) -> None:
        await asyncio.Event().wait()

    def answer(self, uid: str, at: float = 0.0, **samples: float) -> None:
        """Answer the check of one pod; without samples: it cannot be read."""
        (server,) = (server for server in self.asked if server.uid == uid)
        named = {f"vllm:{name}": [value] for name, value in samples.items()}
        good = Answer(True, Reason.ANSWERED, "read", {AT: at, SAMPLES: named})
        self.answers[self.asked[server]] = good if samples else Answer(False, Reason.NO_ANSWER, "not read")
        self._wake(server)


class Scene:
    """Pods, the poller and the figures that are published of them."""

    def __init__(self) -> None:
        self.pods: list[Stored] = []
        self.metrics = Metrics()
        self.figures = EngineFigures(lambda: self.pods, self._poll, self.metrics.show_figures)

    def _poll(self, wake: Callable[[Server], None]) -> ScriptedPoller:
        self.poller = ScriptedPoller(wake)
        return self.poller

    def follow(self, *pods: Stored) -> None:
        self.pods = list(pods)
        self.figures.follow()

    def published(self, figure: str, owner: OwnerKey = CHAT) -> float | None:
        labels = {"namespace": owner.namespace, "kind": owner.kind, "name": owner.name}
        return self.metrics.registry.get_sample_value(f"modelyard_engine_{figure}", labels)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def pod(uid: str, container: str = "vllm", ready: str = "True", ip: str = "10.0.0.1", **meta: Any) -> Stored:
    labels = {names.KIND_LABEL: CHAT.kind, names.INSTANCE_LABEL: CHAT.name, names.MANAGED_BY: names.MANAGER}
    body = {
        "metadata": {"name": f"chat-{uid}", "namespace": CHAT.namespace, "uid": uid, "labels": labels, **meta},
        "spec": {"containers": [{"name": container, "ports": [{"name": "http", "containerPort": 8000}]}]},
        "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]},
    }
    return Stored.from_dict(POD, body)


def test_a_ready_engine_is_asked_at_its_own_address(scene: Scene) -> None:
    scene.follow(pod("a"))
    (check,) = scene.poller.asked.values()
    assert (check.pod.ip, check.pod.port, check.engine) == ("10.0.0.1", 8000, "vllm")
    assert {RUNNING, TOKENS} <= set(check.names)


@pytest.mark.parametrize(
    "other",
    [
        pod("a", container="envoy"),
        pod("a", container="inference-server"),
        pod("a", ready="False"),
        pod("a", ip=""),
        pod("a", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("a", labels={}),
    ],
    ids=["no engine", "no known engine", "not ready", "no address", "ending", "not ours"],
)
def test_no_other_pod_is_asked(scene: Scene, other: Stored) -> None:
    scene.follow(other)
    assert scene.poller.asked == {}


def test_the_pods_of_an_object_are_published_together(scene: Scene) -> None:
    scene.follow(pod("a"), pod("b"))
    scene.poller.answer("a", num_requests_running=2, generation_tokens_total=100)
    scene.poller.answer("b", num_requests_running=1)
    assert (scene.published("requests_running"), scene.published("tokens_per_second")) == (3.0, None)
    scene.poller.answer("a", at=10.0, num_requests_running=0, generation_tokens_total=200)
    assert (scene.published("requests_running"), scene.published("tokens_per_second")) == (1.0, 10.0)


def test_a_pod_that_goes_takes_its_figures_with_it(scene: Scene) -> None:
    scene.follow(pod("a"), pod("b"))
    scene.poller.answer("a", num_requests_running=2)
    scene.poller.answer("b", num_requests_running=1)
    scene.follow(pod("b"))
    assert scene.published("requests_running") == 1.0
    assert [server.uid for server in scene.poller.asked] == ["b"]
    scene.follow()
    assert scene.published("requests_running") is None


def test_what_cannot_be_read_any_more_is_not_published_any_more(scene: Scene) -> None:
    scene.follow(pod("a"))
    scene.poller.answer("a", num_requests_running=2)
    scene.poller.answer("a")
    assert scene.published("requests_running") is None
    scene.poller.answer("a", num_requests_running=4)
    assert scene.published("requests_running") == 4.0


def test_following_the_same_pods_again_asks_nothing_anew(scene: Scene) -> None:
    scene.follow(pod("a"))
    before = dict(scene.poller.asked)
    scene.poller.asked.clear()
    scene.follow(pod("a"))
    assert (scene.poller.asked, len(before)) == ({}, 1)


async def test_in_the_end_nothing_is_published(scene: Scene) -> None:
    scene.pods = [pod("a")]
    task = asyncio.create_task(scene.figures.run())
    async with asyncio.timeout(60):
        while not scene.poller.asked:
            await asyncio.sleep(0)
    scene.poller.answer("a", num_requests_running=2)
    assert scene.published("requests_running") == 2.0
    task.cancel()
    await asyncio.wait([task])
    assert (scene.published("requests_running"), scene.poller.asked) == (None, {})
