"""The commands that lead on from the state of an object. Pure; `explanation` calls it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from modelyard.cluster import containers
from modelyard.cluster.kind_names import ANSWERING
from modelyard.cluster.rows import NEEDS_HELP, NOT_OBSERVED, RESTS
from modelyard.core import names
from modelyard.core.reasons import Reason
from modelyard.core.resources import VOLUME_CLAIM
from modelyard.kinds import ALL
from modelyard.kinds.shared import pod_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from modelyard.cluster.explanation import Need
    from modelyard.cluster.rows import Row
    from modelyard.core.objects import Stored

_GPU: Final = frozenset({Reason.WAITING_FOR_GPU, Reason.INSUFFICIENT_GPU})
_SECRET: Final = frozenset({Reason.SECRET_NOT_FOUND, Reason.SECRET_KEY_MISSING})
_SPEC: Final = frozenset({Reason.INVALID_SPEC, Reason.NOTHING_TO_RUN, Reason.ROUTING_INVALID})
_CRASHED: Final = frozenset({Reason.CRASH_LOOP, Reason.OUT_OF_MEMORY})
_PLURALS: Final = {(kind.resource.api_version, kind.resource.kind): kind.resource.label for kind in ALL}


def commands(shown: Row, needs: Sequence[Need], pods: Sequence[Stored], children: Sequence[Stored]) -> Iterator[str]:
    """Yield commands to run next for an object, the most useful first."""
    if shown.ready:
        if shown.kind in ANSWERING:
            yield f'modelyard ask {shown.kind.lower()}/{shown.name} -n {shown.namespace} "Which model are you?"'
        return
    yield from _by_reason(shown)
    for need in needs:
        name, place = need.key.name, f"-n {need.key.namespace}"
        kind = need.resource.kind.lower()
        yield f"modelyard explain {kind}/{name} {place}" if need.item else f"modelyard get {kind} {place}"
    for pod in pods:
        yield from _of_pod(pod)
    for child in children:
        if child.resource == VOLUME_CLAIM and child.status.get("phase") != "Bound":
            yield f"kubectl describe pvc {child.meta.name} -n {child.meta.namespace}"
    yield _last(shown, has_pods=bool(pods))


def _by_reason(shown: Row) -> Iterator[str]:
    if shown.reason == Reason.PAUSED:
        yield f"kubectl annotate {_target(shown)} {names.PAUSED}-"
    if shown.reason in (NOT_OBSERVED, Reason.FORBIDDEN, Reason.API_UNAVAILABLE):
        yield "modelyard doctor"
    if shown.reason in _GPU:
        yield "modelyard queue"
    if shown.reason in _SECRET:
        yield f"kubectl get secrets -n {shown.namespace}"
    if shown.reason in _SPEC | RESTS:
        yield f"kubectl edit {_target(shown)}"


def _of_pod(pod: Stored) -> Iterator[str]:
    problem = pod_problems.first_problem([pod])
    where = f"{pod.meta.name} -n {pod.meta.namespace}"
    if problem is None:
        return
    crashed = [*containers.failed([pod])] if problem.reason in _CRASHED else []
    for each in crashed:
        # Of one container: kubectl ends at the first that has no previous run, as those that fetch weights have none.
        yield f"kubectl logs {'--previous ' if each.has_previous else ''}-c {each.name} {where}"
    if not crashed:
        yield f"kubectl describe pod {where}"


def _last(shown: Row, *, has_pods: bool) -> str:
    if has_pods or shown.reason in NEEDS_HELP | RESTS | {NOT_OBSERVED, Reason.PAUSED}:
        return f"kubectl describe {_target(shown)}"
    # Nothing is wrong as far as the status says, so there is only to wait.
    return f"kubectl wait --for=condition=Ready {_target(shown)} --timeout=30m"


def _target(shown: Row) -> str:
    """Return the words by which kubectl finds an object; with its group, because others have a `Gateway`, too."""
    return f"{_PLURALS[shown.api_version, shown.kind]} {shlex.quote(shown.name)} -n {shown.namespace}"
