"""At random over what users do to a canary and what a cluster does meanwhile: no request is ever led to nothing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from modelyard.core.plan import Child
from modelyard.kinds.zerfooinferenceservice import ZERFOO_INFERENCE_SERVICE
from tests.kinds.canaries import ADDRESSES, HEALTH, ago, router_pod, version
from tests.kinds.cases import Case, play

if TYPE_CHECKING:
    from tests.kinds.cases import Situation

Json = dict[str, Any]

SEEDS = range(8)
TURNS = 60
CALM_TURNS = 40


class World:
    """A cluster that takes its time, and in which anything that is late may be later still."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.spec: Json = {"modelRef": "m0", "replicas": 1, "healthCheck": HEALTH}
        self.status: Json = {}
        self.objects: dict[tuple[str, str], Json] = {}
        self.loaded = [0, 0]
        """The weight that each router has loaded."""
        self.active = 0
        """How many answers of the canary are under way."""
        self.report: tuple[list[int], int] = ([0, 0], 0)
        """What the routers said a turn ago: reports are some seconds old."""
        self.leaving = 0

    def turn(self, *, calm: bool = False) -> Situation:
        """Let something happen, then reconcile once, and check what must always hold."""
        if not calm and self.chance.random() < 0.15:
            self._edit()
        self._pass_time(sure=calm)
        found = play(ZERFOO_INFERENCE_SERVICE, msgspec.convert(self._case(), Case))
        self.status = self._later(found.status)
        for child in found.plan.apply:
            assert isinstance(child, Child)
            self._apply(child)
        for ref in found.plan.delete:
            assert ref.key.name != "chat-canary" or ref.resource.kind != "Deployment" or self.active == 0
            del self.objects[ref.resource.kind, ref.key.name]
        self._check()
        return found

    def _later(self, status: Json) -> Json:
        """Return a status that is five seconds older for each turn: a case has no clock."""
        rollout = status.get("rollout") or {}
        self.leaving = self.leaving + 1 if "leavingSince" in rollout else 0
        return {**status, "rollout": {**rollout, "leavingSince": ago(5 * self.leaving)}} if self.leaving else status

    def _edit(self) -> None:
        canary = {"modelRef": f"m{self.chance.randrange(3)}", "weight": self.chance.choice([0, 20, 60, 100])}
        match self.chance.randrange(4):
            case 0:
                self.spec.pop("canary", None)
            case 1 if "canary" in self.spec:
                self.spec = {**self.spec, "modelRef": self.spec["canary"]["modelRef"]}
                del self.spec["canary"]
            case _:
                self.spec = {**self.spec, "canary": canary}

    def _pass_time(self, *, sure: bool) -> None:
        for (kind, name), item in self.objects.items():
            if kind == "Deployment" and (sure or self.chance.random() < 0.5):
                ready = name == "chat-primary" or sure or self.chance.random() < 0.8
                self._roll(item, item["spec"]["replicas"] if ready else 0)
        files = self.objects.get(("ConfigMap", "chat-router"))
        for number in range(2):
            if files and (sure or self.chance.random() < 0.3):
                text = files["data"]["routes.json"]
                self.loaded[number] = next(weight for weight in range(101) if version(weight) in text)
        if self._leads_to() == "chat-router" and any(self.loaded) and not sure:
            self.active = 1
        elif sure or self.chance.random() < 0.5:
            self.active = 0

    def _roll(self, item: Json, ready: int) -> None:
        count, generation = item["spec"]["replicas"], item["metadata"]["generation"]
        item["status"] = {
            "observedGeneration": generation, "replicas": count, "updatedReplicas": count, "readyReplicas": ready
        }  # fmt: skip

    def _apply(self, child: Child) -> None:
        place, body = (child.resource.kind, child.name), child.body
        old = self.objects.get(place)
        meta = {**body["metadata"], "generation": 1}
        if child.resource.kind == "Service":
            body = {**body, "spec": {**body["spec"], "clusterIP": ADDRESSES[child.name]}}
        if child.resource.kind == "Deployment":
            assert child.replicas
            body = {**body, "spec": {**body["spec"], "replicas": child.replicas.wanted}}
        if old:
            meta["generation"] = old["metadata"]["generation"] + (old.get("spec") != body.get("spec"))
        self.objects[place] = {**body, "metadata": meta, "status": old["status"] if old else {}}

    def _case(self) -> Json:
        meta, (loaded, active) = {"name": "chat"}, self.report
        itself = {"kind": "ZerfooInferenceService", "metadata": meta, "spec": self.spec, "status": self.status}
        self.report = list(self.loaded), self.active
        routers = self.objects.get(("Deployment", "chat-router"), {}).get("status", {}).get("readyReplicas", 0)
        pods = [router_pod(number) for number in range(1, routers + 1)]
        reports = {
            f"chat-router-{number}": {
                "version": version(weight),
                "weights": {name: share for name, share in (("primary", 100 - weight), ("canary", weight)) if share},
                "figures": {"canary": {"active": active}},
            }
            for number, weight in enumerate(loaded, 1)
        }
        answers = [{"ok": True, "reason": "Answered", "value": reports}] if routers else []
        return {"why": "", "given": [itself, *self.objects.values(), *pods], "answers": answers}

    def _leads_to(self) -> str:
        service = self.objects.get(("Service", "chat-svc"))
        return str(service["spec"]["selector"]["app"]) if service else ""

    def _check(self) -> None:
        """Whatever the Service leads to exists, and so does what the routers behind it lead to."""
        assert ("Deployment", self._leads_to()) in self.objects
        if self._leads_to() != "chat-router":
            return
        assert ("ConfigMap", "chat-router") in self.objects
        if any(self.loaded):
            assert ("Deployment", "chat-canary") in self.objects
            assert ("Service", "chat-canary") in self.objects


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_requests_find_a_server_and_all_is_well_in_the_end(seed: int):
    world = World(seed)
    for _ in range(TURNS):
        world.turn()
    for _ in range(CALM_TURNS):
        found = world.turn(calm=True)
    wanted = world.spec.get("canary", {"weight": 0})["weight"]
    assert found.status["ready"] is True
    shares = {track["name"]: track["effectiveWeight"] for track in found.status["tracks"]}
    assert shares == {"primary": 100 - wanted, **({"canary": wanted} if "canary" in world.spec else {})}
    assert (("Deployment", "chat-router") in world.objects) == ("canary" in world.spec)
