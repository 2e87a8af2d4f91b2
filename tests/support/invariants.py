"""What must hold at every moment of a recorded history, whatever else a test is about.

Pure functions over the order of events. Each returns one sentence per violation, and nothing when all is well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from modelyard.core.names import COMPONENT_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Json = dict[str, Any]


class Version(Struct, frozen=True):
    """An object as one event of a watch showed it."""

    event: str
    """ADDED, MODIFIED or DELETED."""
    kind: str
    object: Json

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace, empty when it has none."""
        return str(self.object["metadata"].get("namespace", ""))

    @property
    def uid(self) -> str:
        """What tells the object from a successor of the same name."""
        return str(self.object["metadata"]["uid"])

    @property
    def generation(self) -> int:
        """How often its spec has changed."""
        return int(self.object["metadata"].get("generation", 0))

    @property
    def status(self) -> Json:
        """Its status."""
        return dict(self.object.get("status", {}))

    @property
    def conditions(self) -> dict[str, Json]:
        """Its conditions by type."""
        return {entry["type"]: entry for entry in self.status.get("conditions", [])}

    def __str__(self) -> str:
        revision = self.object["metadata"].get("resourceVersion", "?")
        return f"{self.kind} {self.namespace}/{self.name} at resourceVersion {revision}"


def by_component(version: Version) -> str:
    """Say that an owner has at most one child of each kind for each of its components."""
    return str(version.object["metadata"].get("labels", {}).get(COMPONENT_LABEL, ""))


def duplicates(history: Iterable[Version], role: Callable[[Version], str] = by_component) -> list[str]:
    """O5: no custom resource ever has two children of the same kind and role at the same time."""
    alive: dict[tuple[str, str, str], set[str]] = {}
    found = []
    for version in history:
        owner = _custom_owner(version)
        if owner is None:
            continue
        children = alive.setdefault((owner["uid"], version.kind, role(version)), set())
        if _is_going(version):
            children.discard(version.name)
            continue
        children.add(version.name)
        if len(children) > 1:
            found.append(f"{owner['kind']} {owner['name']} has {len(children)} of {version.kind}: {sorted(children)}")
    return found


def untruths(history: Iterable[Version]) -> list[str]:
    """O14: no status claims more than was seen, goes back, or moves a time without news."""
    before: dict[str, Version] = {}
    found: list[str] = []
    for version in history:
        if not _is_custom(version.object.get("apiVersion", "")):
            continue  # what Kubernetes' own controllers write is not ours to judge
        old = before.get(version.uid)
        if version.event != "DELETED" and (old is None or old.status != version.status):
            found += [f"{version}: {wrong}" for wrong in _wrong_with(version, old)]
        before[version.uid] = version
    return found


def _wrong_with(version: Version, old: Version | None) -> Iterator[str]:
    yield from _contradictions(version)
    if _says_ready(version) and _observed(version) != version.generation and not _is_memory(version, old):
        yield f"Ready is written for generation {_observed(version)}, but the object is at {version.generation}"
    if old is None:
        return
    if _observed(version) < _observed(old):
        yield f"observedGeneration went back from {_observed(old)} to {_observed(version)}"
    for kind, condition in version.conditions.items():
        earlier = old.conditions.get(kind)
        if earlier and _moved_without_news(earlier, condition):
            yield f"lastTransitionTime of {kind} moved, but its status stayed {condition['status']}"


def _is_memory(version: Version, old: Version | None) -> bool:
    """Whether a write has left everything that is said as it was: a memory is written before anything acts on it."""
    return old is not None and (_observed(old), old.conditions) == (_observed(version), version.conditions)


def _contradictions(version: Version) -> Iterator[str]:
    """What of one status cannot be true at the same time, of whichever kind it is."""
    status = version.status
    if version.conditions.get("Available", {}).get("status") == "True" and status.get("readyReplicas") == 0:
        yield "Available is True, but no pod is ready"
    if (
        "phase" in status
        and "Ready" in version.conditions
        and (
            # The phase of a Gateway is that of its pods, which may run although it is not ready.
            (status["phase"] in ("Ready", "Running")) != _says_ready(version)
            and (version.kind != "Gateway" or _says_ready(version))
        )
    ):
        yield f"the phase is {status['phase']}, but the condition Ready says otherwise"


def _moved_without_news(earlier: Json, later: Json) -> bool:
    same = earlier["status"] == later["status"]
    return same and earlier.get("lastTransitionTime") != later.get("lastTransitionTime")


def _says_ready(version: Version) -> bool:
    return version.conditions.get("Ready", {}).get("status") == "True"


def _observed(version: Version) -> int:
    """Return the oldest generation that the status, or its Ready condition, was made of."""
    claims = [version.status.get("observedGeneration"), version.conditions.get("Ready", {}).get("observedGeneration")]
    return min((int(claim) for claim in claims if claim is not None), default=0)


def _custom_owner(version: Version) -> Json | None:
    owners: list[Json] = version.object["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller") and _is_custom(owner["apiVersion"])), None)


def _is_custom(api_version: str) -> bool:
    group = api_version.rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def _is_going(version: Version) -> bool:
    return version.event == "DELETED" or "deletionTimestamp" in version.object["metadata"]
