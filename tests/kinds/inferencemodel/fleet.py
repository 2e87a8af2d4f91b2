"""A fleet without a cluster: hosts, InferenceModels and a clock, played through both kinds as the runtime would.

Daemons are dicts. What a plan asks of them is done at once, and the object is reconciled again with the result, until
nothing changes any more; then time may pass. After every reconcile the invariants of the status are checked.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from modelyard.core.checks import Answer
from modelyard.core.hosts import HostedModel, HostProbe, HostReport, LoadModel, ModelState, Pressure, UnloadModel
from modelyard.core.objects import Stored
from modelyard.core.plan import Outcome, Plan
from modelyard.core.reasons import Reason
from modelyard.core.resources import Key
from modelyard.core.times import timestamp
from modelyard.kinds.contract import Every, Owned, Seen
from modelyard.kinds.decode import decode
from modelyard.kinds.gather import Gathering
from modelyard.kinds.inferencehost import INFERENCE_HOST
from modelyard.kinds.inferencemodel import INFERENCE_MODEL
from modelyard.runtime.apply import full_body
from modelyard.runtime.dependents import matches
from modelyard.runtime.status import memory_fields, merge_patch, summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.calls import Call
    from modelyard.core.resources import Resource
    from modelyard.kinds.contract import Kind, Lookup

Json = dict[str, Any]

GIB = 1024**3
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DIFFERENT = Answer(False, Reason.LOAD_FAILED, "the host answered with HTTP 409: it is loaded with other options")
NO_ANSWER = Answer(False, Reason.NO_ANSWER, "the host did not answer; check that it runs")


class Daemon:
    """A host: what it has loaded, and what it was asked to do."""

    def __init__(self, address: str, total: int) -> None:
        self.address, self.total = address, total
        self.models: dict[str, HostedModel] = {}
        self.up = True
        self.lets_in = True
        self.measures = False
        """Whether it lists what a model really takes, whatever it is told."""
        self.refusal: Answer | None = None
        """What it answers to loads; None: it accepts them."""
        self.lands: ModelState | None = ModelState.READY
        """The state in which a model is listed at once; None: it is accepted and never listed."""
        self.asked: list[str] = []
        self.loaded: dict[str, LoadModel] = {}
        """The latest request for each model that it has, as it was accepted."""
        self.pressure: Pressure | None = None

    def probe(self) -> Answer:
        if not self.up:
            return NO_ANSWER
        if not self.lets_in:
            return Answer(False, Reason.UNAUTHORIZED, "the host does not let the operator in (HTTP 401)")
        free = max(0, self.total - sum(model.memory for model in self.models.values()))
        models = tuple(self.models[name] for name in sorted(self.models))
        report = HostReport((self.address,), models, self.total, free if self.total else None, "1", self.pressure)
        return Answer(True, Reason.ANSWERED, "the host answers", msgspec.to_builtins(report))

    def do(self, call: Call) -> Answer:
        if not self.up:
            return NO_ANSWER
        if isinstance(call, UnloadModel):
            self.asked.append(f"unload {call.model}")
            self.models.pop(call.model, None)
            self.loaded.pop(call.model, None)
            return Answer(True, Reason.ANSWERED, "unloaded")
        assert isinstance(call, LoadModel)
        self.asked.append(f"load {call.model}")
        if self.refusal:
            return self.refusal
        if call.model in self.models and self.loaded.setdefault(call.model, call).options != call.options:
            return DIFFERENT
        self.loaded[call.model] = call
        if self.lands and self.models.get(call.model, HostedModel("", ModelState.FAILED)).state is ModelState.FAILED:
            self.models[call.model] = HostedModel(call.model, self.lands, memory=call.memory, owner=call.owner)
        elif call.model in self.models and call.memory and not self.measures:
            self.models[call.model] = replace(self.models[call.model], memory=call.memory, owner=call.owner)
        return Answer(True, Reason.ANSWERED, "accepted")

    def shows(self, model: str, state: ModelState, progress: int = 0, error: str = "", code: str = "") -> None:
        before = self.models.get(model, HostedModel(model))
        self.models[model] = HostedModel(model, state, progress, before.memory, error, code, before.owner)


class Fleet:
    """All that a namespace holds."""

    def __init__(self) -> None:
        self.now = START
        self.daemons: dict[str, Daemon] = {}
        self.stored: dict[tuple[Resource, Key], Stored] = {}
        self.results: dict[str, dict[Call, Answer]] = {}
        self.writes = 0
        """How often a status or a child was written."""

    def host(self, name: str, labels: dict[str, str] | None = None, memory: int = 16 * GIB, **spec: Any) -> Daemon:
        number = len(self.daemons) + 1
        self.daemons[name] = Daemon(f"10.0.0.{number}", memory)
        body = {"spec": {"endpoint": f"http://{name}.example:11434", **spec}}
        self._put(INFERENCE_HOST, name, body, labels or {})
        return self.daemons[name]

    def model(self, name: str = "chat", **spec: Any) -> None:
        self._put(INFERENCE_MODEL, name, {"spec": {"model": "org/chat", "memory": "4Gi", **spec}}, {})

    def edit(self, kind: Kind, name: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
        body = self._at(kind, name).to_dict()
        meta = {**body["metadata"], "generation": body["metadata"]["generation"] + 1}
        meta |= {"labels": labels} if labels is not None else {}
        self._store(kind.resource, {**body, "metadata": meta, "spec": {**body["spec"], **spec}})

    def delete(self, kind: Kind, name: str) -> None:
        body = self._at(kind, name).to_dict()
        body["metadata"]["deletionTimestamp"] = timestamp(self.now)
        self._store(kind.resource, body)

    def vanish(self, kind: Kind, name: str) -> None:
        """Remove an object without its finalizer."""
        del self.stored[kind.resource, Key("default", name)]

    def change_leader(self) -> None:
        """Forget what came of the calls: another operator knows only what is stored."""
        self.results.clear()

    def settle(self, seconds: float = 0.0, steps: int = 1) -> None:
        """Let time pass, in equal steps, and after each reconcile everything until nothing changes."""
        for _ in range(steps):
            self.now += timedelta(seconds=seconds / steps)
            for _ in range(20):
                before = dict(self.stored), {name: dict(known) for name, known in self.results.items()}
                for kind in (INFERENCE_HOST, INFERENCE_MODEL):
                    for key in [key for resource, key in self.stored if resource == kind.resource]:
                        self._reconcile(kind, key)
                if before == (self.stored, self.results):
                    break
            else:
                raise AssertionError("the fleet never settles")

    def status(self, name: str = "chat", kind: Kind = INFERENCE_MODEL) -> Json:
        return self._at(kind, name).status

    def exists(self, name: str = "chat", kind: Kind = INFERENCE_MODEL) -> bool:
        return (kind.resource, Key("default", name)) in self.stored

    def condition(self, kind: str, name: str = "chat", of: Kind = INFERENCE_MODEL) -> Json:
        return next((entry for entry in self.status(name, of)["conditions"] if entry["type"] == kind), {})

    def placements(self, name: str = "chat") -> dict[str, str]:
        return {one["host"]: one["state"] for one in self.status(name)["placements"]}

    def endpoints(self) -> list[tuple[str, bool]]:
        """Return every published endpoint: its address, and whether it gets requests."""
        return sorted(
            (entry["addresses"][0], entry["conditions"]["ready"])
            for (resource, _), item in self.stored.items()
            if resource.kind == "EndpointSlice"
            for entry in item.part("endpoints")
        )

    def asked(self) -> list[str]:
        """Return what all daemons were asked to do, and forget it."""
        said = [f"{name}: {one}" for name, daemon in self.daemons.items() for one in daemon.asked]
        for daemon in self.daemons.values():
            daemon.asked.clear()
        return said

    def _put(self, kind: Kind, name: str, body: Json, labels: dict[str, str]) -> None:
        meta = {"namespace": "default", "name": name, "uid": f"uid-{kind.name}-{name}", "generation": 1}
        meta |= {"creationTimestamp": timestamp(self.now), "labels": labels}
        self._store(kind.resource, {**body, "metadata": meta})

    def _store(self, resource: Resource, body: Json) -> None:
        self.stored[resource, Key("default", body["metadata"]["name"])] = Stored.from_dict(resource, body)

    def _at(self, kind: Kind, name: str) -> Stored:
        return self.stored[kind.resource, Key("default", name)]

    def _reconcile(self, kind: Kind, key: Key) -> None:
        obj = decode(kind, self._at(kind, key.name))
        reading = Gathering(kind, obj, Seen(self.now, results=self.results.get(obj.meta.uid, {})))
        for read in reading:
            reading.found(read, dict(self._find(read, obj.meta.uid)))
        asked = {read: self._answer(read.check) for read in reading.asked}
        seen = reading.seen(asked)
        decided = kind.decided(obj, seen)
        memory = decided[0].memory if kind.memory else None
        self._write_status(kind, key, memory_fields(memory))
        make_plan = kind.finalize if obj.meta.deleting and kind.finalize else kind.plan
        plan = make_plan(obj, seen, *decided)
        if obj.meta.deleting and plan == Plan():
            self.vanish(kind, key.name)
            self.results.pop(obj.meta.uid, None)
            return
        outcome = self._carry_out(self._at(kind, key.name), plan)
        said = kind.summarise(obj, seen.after(outcome), outcome, *decided) if kind.summarise else None
        assert said
        stored = self._at(kind, key.name)
        self._write_status(kind, key, summary(kind, stored, said, None, timestamp(self.now), memory))
        self._make_calls(obj.meta.uid, plan)
        if kind is INFERENCE_MODEL:
            ready = sum(ready for _, ready in self._own_endpoints(key.name))
            assert self.status(key.name)["readyReplicas"] == ready

    def _own_endpoints(self, name: str) -> Iterator[tuple[str, bool]]:
        for (resource, key), item in self.stored.items():
            if resource.kind == "EndpointSlice" and key.name.startswith(f"{name}-ip"):
                for entry in item.part("endpoints"):
                    yield entry["addresses"][0], entry["conditions"]["ready"]

    def _find(self, read: Lookup, uid: str) -> Iterator[tuple[Key, Stored]]:
        for (resource, key), item in self.stored.items():
            if resource != read.resource:
                continue
            owned = item.meta.controller is not None and item.meta.controller.uid == uid
            if (isinstance(read, Owned) and owned) or (isinstance(read, Every) and matches(read, item)):
                yield key, item

    def _answer(self, check: object) -> Answer:
        assert isinstance(check, HostProbe)
        return self._daemon(check.host.endpoint).probe()

    def _daemon(self, endpoint: str) -> Daemon:
        return self.daemons[endpoint.removeprefix("http://").partition(".")[0]]

    def _write_status(self, kind: Kind, key: Key, wanted: Json) -> None:
        stored = self._at(kind, key.name)
        if patch := merge_patch(stored, wanted, timestamp(self.now)):
            self.writes += 1
            body = stored.to_dict()
            merged = {name: value for name, value in {**body.get("status", {}), **wanted}.items() if value is not None}
            assert patch
            self._store(kind.resource, {**body, "status": merged})

    def _carry_out(self, owner: Stored, plan: Plan) -> Outcome:
        written = []
        for child in plan.apply:
            key = Key("default", child.name)
            body = full_body(owner, child)
            body["metadata"] |= {"uid": f"uid-{child.name}", "generation": 1}
            item = Stored.from_dict(child.resource, body)
            before = self.stored.get((child.resource, key))
            if before is None or before.parts != item.parts:
                self.writes += 1
                self.stored[child.resource, key] = item
            written.append(self.stored[child.resource, key])
        for ref in plan.delete:
            self.writes += 1
            del self.stored[ref.resource, ref.key]
        return Outcome(stored=tuple(written), deleted=plan.delete, requeue_after=plan.requeue_after)

    def _make_calls(self, uid: str, plan: Plan) -> None:
        known = self.results.get(uid, {})
        self.results[uid] = {
            call: known.get(call) or self._daemon(call.host.endpoint).do(call)
            for call in plan.calls
            if isinstance(call, LoadModel | UnloadModel)
        }
