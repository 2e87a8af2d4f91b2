"""The status of a Pod, computed from the state of its containers. Pure; `pod_worker` writes it.

Its counterpart is the kubelet's `generateAPIPodStatus`. Phases and conditions follow the kubelet's rules, because the
controllers, `kubectl` and the operator read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core.conditions import transition_time
from modelyard.local.node.podspec import PodSpec
from modelyard.local.node.process.container_state import ContainerStatus, Running, Terminated, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from modelyard.local.node.process.container_state import State

Json = dict[str, Any]

_OURS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_OVERDUE: Final = {
    "reason": "DeadlineExceeded",
    "message": "the pod was active for longer than activeDeadlineSeconds; raise it, or make the pod faster",
}
# `kubectl debug` shows it, and would otherwise wait without a word.
_NOT_DEBUGGED: Final = Waiting("CreateContainerError", "one machine has no debug containers; use `kubectl exec`")
HOST: Final = "127.0.0.1"
OVER: Final = frozenset({"Succeeded", "Failed"})
"""The phases that a pod never leaves."""


class PodFacts(Struct, frozen=True):
    """What the status of a pod is computed from."""

    uid: str
    spec: PodSpec
    address: str
    """The `podIP` that the cluster is shown; empty: it has none yet."""
    started: str
    """The time at which the node first saw the pod: its `startTime`."""
    inits: tuple[ContainerStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    stopping: bool = False
    """Whether the containers were told to stop, so that none is started again."""
    overdue: bool = False
    """Whether they were told to stop because of `activeDeadlineSeconds`."""


def pod_status(facts: PodFacts, before: Json, now: str) -> Json:
    """Return the fields of `Pod.status` that this node writes; times of unchanged conditions come from `before`."""
    before = _without_nulls(before)
    sidecars = _sidecars(facts)
    inits = [_container(status, facts.uid, once=status.name not in sidecars) for status in facts.inits]
    return {
        "phase": phase(facts),
        **(_OVERDUE if facts.overdue else {}),
        "conditions": _conditions(facts, before.get("conditions", []), now),
        "hostIP": HOST,
        "hostIPs": [{"ip": HOST}],
        **({"podIP": facts.address, "podIPs": [{"ip": facts.address}]} if facts.address else {}),
        "startTime": before.get("startTime", facts.started),
        **({"initContainerStatuses": inits} if inits else {}),
        "containerStatuses": [_container(status, facts.uid) for status in facts.containers],
        **_ephemeral(facts),
    }


def _ephemeral(facts: PodFacts) -> Json:
    added = [ContainerStatus(each.name, each.image, _NOT_DEBUGGED) for each in facts.spec.ephemeral_containers]
    return {"ephemeralContainerStatuses": [_container(status, facts.uid) for status in added]} if added else {}


def changed(status: Json, before: Json) -> Json:
    """Return the fields of a new status that differ from the stored one; empty: there is nothing to write."""
    return {name: value for name, value in status.items() if value != _without_nulls(before.get(name))}


def _without_nulls(value: Any) -> Any:
    """Return a stored value without nulls: the API server adds null times to conditions, which are no difference."""
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def phase(facts: PodFacts) -> str:
    """Return the phase of a pod: Pending, Running, Succeeded or Failed."""
    if facts.overdue and not any(isinstance(status.state, Running) for status in (*facts.inits, *facts.containers)):
        return "Failed"
    if _init_failed(facts):
        return "Failed"
    if not is_initialized(facts):
        return "Pending"
    if facts.containers and all(_is_over(status.state) for status in facts.containers) and _stays_over(facts):
        return "Succeeded" if all(_succeeded(status.state) for status in facts.containers) else "Failed"
    if any(_never_ran(status) for status in facts.containers):
        return "Pending"
    return "Running"


def is_initialized(facts: PodFacts) -> bool:
    """Whether all init containers of a pod have succeeded, and all its sidecars have started."""
    if not all(_never_ran(status) for status in facts.containers):
        return True
    return not _incomplete_inits(facts)


def _incomplete_inits(facts: PodFacts) -> list[str]:
    """Return the init containers that still hold up the pod. One that runs has always "started": only sidecars may."""
    sidecars = _sidecars(facts)
    return [
        status.name
        for status in facts.inits
        if not (status.started if status.name in sidecars else _succeeded(status.state))
    ]


def _sidecars(facts: PodFacts) -> frozenset[str]:
    return frozenset(container.name for container in facts.spec.init_containers if container.is_sidecar)


def _init_failed(facts: PodFacts) -> bool:
    sidecars = _sidecars(facts)
    work = [status for status in facts.inits if status.name not in sidecars]
    failed = any(_is_over(status.state) and not _succeeded(status.state) for status in work)
    return failed and (facts.stopping or facts.spec.restart_policy == "Never")


def _stays_over(facts: PodFacts) -> bool:
    """Whether containers that have ended are not restarted."""
    policy = facts.spec.restart_policy
    everything = all(_succeeded(status.state) for status in facts.containers)
    return facts.stopping or policy == "Never" or (policy == "OnFailure" and everything)


def _is_over(state: State) -> bool:
    return isinstance(state, Terminated)


def _succeeded(state: State) -> bool:
    return isinstance(state, Terminated) and state.succeeded


def _never_ran(status: ContainerStatus) -> bool:
    return isinstance(status.state, Waiting) and status.last is None


def _container(status: ContainerStatus, uid: str, *, once: bool = False) -> Json:
    """Return the status of one container; `once`: it is an init container, which is ready when it has succeeded."""
    ran = not _never_ran(status)
    return {
        "name": status.name,
        "image": status.image,
        "imageID": "",
        "state": _state(status.state, _id(status, uid)),
        "lastState": _state(status.last, _id(status, uid, back=1)) if status.last else {},
        "ready": _succeeded(status.state) if once else status.ready,
        "restartCount": status.restarts,
        "started": status.started,
        **({"containerID": _id(status, uid)} if ran else {}),
    }


def _id(status: ContainerStatus, uid: str, back: int = 0) -> str:
    return f"modelyard://{uid}/{status.name}/{max(0, status.restarts - back)}"


def _state(state: State, identity: str) -> Json:
    if isinstance(state, Waiting):
        return {"waiting": {"reason": state.reason, **({"message": state.message} if state.message else {})}}
    if isinstance(state, Running):
        return {"running": {"startedAt": state.since}}
    return {
        "terminated": {
            "exitCode": state.code,
            "reason": state.reason,
            **({"message": state.message} if state.message else {}),
            "startedAt": state.started,
            "finishedAt": state.finished,
            "containerID": identity,
        }
    }


def _conditions(facts: PodFacts, before: Sequence[Json], now: str) -> list[Json]:
    """Return the conditions that this node owns, and those of other controllers unchanged."""
    old = {entry["type"]: entry for entry in before}
    ours = {name: _timed(name, *truth, old.get(name, {}), now) for name, truth in _truths(facts, old).items()}
    return [*ours.values(), *(entry for name, entry in old.items() if name not in _OURS)]


def _truths(facts: PodFacts, old: dict[str, Json]) -> dict[str, tuple[bool, str, str]]:
    """Return for each condition that this node owns whether it holds, and if not, reason and message."""
    over = phase(facts) if phase(facts) in OVER else ""
    sidecars = _sidecars(facts)
    lasting = [*(status for status in facts.inits if status.name in sidecars), *facts.containers]
    unready = [status.name for status in lasting if not status.ready]
    incomplete = [] if is_initialized(facts) or over == "Succeeded" else _incomplete_inits(facts)
    because = next((f"; {status.unready_because}" for status in lasting if status.unready_because), "")
    all_ready = _not_ready("ContainersNotReady", "containers with unready status", unready, over, because)
    gates = [gate.condition_type for gate in facts.spec.readiness_gates]
    closed = [name for name in gates if old.get(name, {}).get("status") != "True"]
    return {
        "PodReadyToStartContainers": (bool(facts.address) and not over, "", ""),
        "Initialized": _not_ready("ContainersNotInitialized", "containers with incomplete status", incomplete),
        "Ready": _not_ready("ReadinessGatesNotReady", "readiness gates that do not hold", closed)
        if all_ready[0]
        else all_ready,
        "ContainersReady": all_ready,
    }


def _not_ready(
    reason: str, words: str, names: Iterable[str], over: str = "", because: str = ""
) -> tuple[bool, str, str]:
    listed = " ".join(names)
    if over:
        return False, "PodCompleted" if over == "Succeeded" else "PodFailed", ""
    return (False, reason, f"{words}: [{listed}]{because}") if listed else (True, "", "")


def _timed(name: str, truth: bool, reason: str, message: str, old: Json, now: str) -> Json:
    status = "True" if truth else "False"
    told = {"reason": reason, "message": message}
    return {
        "type": name,
        "status": status,
        "lastTransitionTime": transition_time(old, status, now),
        **{key: value for key, value in told.items() if value},
    }
