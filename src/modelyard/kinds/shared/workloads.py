"""Deployments: building them, and reading from them how far they are.

The one place that decides whether a Deployment serves what was asked for. It never trusts numbers of an older
generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from modelyard.core.conditions import Condition, Problem, Truth, condition, failing
from modelyard.core.diff import fingerprint
from modelyard.core.plan import Child, Replicas
from modelyard.core.reasons import Reason
from modelyard.core.resources import DEPLOYMENT, SERVICE, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.core.objects import Stored

Json = dict[str, Any]

_ROLLING_UPDATE: Json = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
"""The defaults of Kubernetes, stated so that they are ours to remove: Recreate is refused beside them."""


class Rollout(Struct, frozen=True):
    """How far a Deployment is."""

    wanted: int = 0
    ready: int = 0
    current: bool = False
    """Whether all pods there are were made from the latest template."""
    settled: bool = False
    """Whether there are as many pods as wanted, all from the latest template."""
    template: str = ""
    """What changes whenever the pod template does."""
    problem: Problem | None = None

    @property
    def complete(self) -> bool:
        """Whether every pod that is wanted is there, ready and of the latest template."""
        return self.settled and self.ready == self.wanted

    @property
    def count(self) -> str:
        """How many pods are ready, in words."""
        return ready_text(self.ready, self.wanted, complete=self.complete)

    def answers_for(self, checked: str) -> bool:
        """Whether a pod would answer a request, and only pods of the latest template would.

        While the number of pods changes, Kubernetes is a moment behind; if the template is the one that was checked
        before, nothing else can answer.
        """
        return self.ready > 0 and (self.current or self.template == checked)


def child(
    resource: Resource, name: str, labels: Mapping[str, str], body: Json, replicas: Replicas | None = None
) -> Child:
    """Return a child with the fields that every object has. Owner and namespace are added by the runtime."""
    head = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": dict(labels)},
    }
    return Child(resource, name, {**head, **body}, replicas)


def deployment(
    name: str,
    labels: Mapping[str, str],
    selector: Mapping[str, str],
    replicas: Replicas,
    template: Json,
    *,
    strategy: str = "RollingUpdate",
    progress_deadline: int | None = None,
) -> Child:
    """Return a Deployment. `progress_deadline` is how many seconds a change of its pods may take."""
    spec = {
        "selector": {"matchLabels": dict(selector)},
        "strategy": _ROLLING_UPDATE if strategy == _ROLLING_UPDATE["type"] else {"type": strategy},
        **({"progressDeadlineSeconds": progress_deadline} if progress_deadline else {}),
        "template": template,
    }
    return child(DEPLOYMENT, name, labels, {"spec": spec}, replicas)


def service(
    name: str, labels: Mapping[str, str], selector: Mapping[str, str], port: int, kind: str = "ClusterIP"
) -> Child:
    """Return a Service in front of the container port named `http`."""
    spec = {
        "type": kind,
        "selector": dict(selector),
        "ports": [{"name": "http", "port": port, "protocol": "TCP", "targetPort": "http"}],
    }
    return child(SERVICE, name, labels, {"spec": spec})


def read_rollout(stored: Stored | None) -> Rollout:
    """Read how far a Deployment is."""
    if stored is None:
        return Rollout()
    spec, status = stored.spec, stored.status
    wanted = int(spec.get("replicas", 1))
    observed = int(status.get("observedGeneration", 0)) >= stored.meta.generation
    updated, ready, total = (int(status.get(name, 0)) for name in ("updatedReplicas", "readyReplicas", "replicas"))
    return Rollout(
        wanted=wanted,
        ready=ready,
        current=observed and updated == total,
        settled=observed and updated == total == wanted,
        template=fingerprint(spec.get("template", {})),
        problem=_find_problem(stored.meta.name, spec, status) if observed else None,
    )


def _find_problem(name: str, spec: Json, status: Json) -> Problem | None:
    by_type = {entry.get("type"): entry for entry in status.get("conditions", ())}
    failure = by_type.get("ReplicaFailure", {})
    if failure.get("status") == "True":
        return Problem(
            Reason.PODS_REFUSED,
            f"the cluster refuses to create pods: {failure.get('message', '')}",
            "remove what the message names, or ask whoever runs the cluster",
        )
    if spec.get("paused") and status.get("updatedReplicas", 0) < max(1, status.get("replicas", 0)):
        return Problem(
            Reason.ROLLOUT_STUCK,
            f"the Deployment {name} is paused, so the latest change does not reach its pods",
            f"resume it with `kubectl rollout resume deployment {name}`",
        )
    stuck = by_type.get("Progressing", {})
    if stuck.get("status") == "False" and stuck.get("reason") == "ProgressDeadlineExceeded":
        return Problem(
            Reason.ROLLOUT_STUCK,
            "the pods of the latest change did not become ready in time",
            "look at the pods with `kubectl describe pod`",
        )
    return None


def available(rollout: Rollout, problem: Problem | None) -> Condition:
    """State whether pods serve. A change that is stuck does not take away what still serves, but it is named."""
    if rollout.complete and rollout.wanted == 0:
        return condition("Available", False, Reason.SCALED_TO_ZERO, "scaled to zero; raise spec.replicas to serve")
    if rollout.complete:
        return condition("Available", True, Reason.PODS_READY, rollout.count)
    if problem:
        return failing("Available", problem, Truth.TRUE if rollout.ready else Truth.FALSE)
    reason = Reason.ROLLING_OUT if rollout.ready else Reason.STARTING
    return condition("Available", rollout.ready > 0, reason, rollout.count)


def ready_text(ready: int, wanted: int, *, complete: bool) -> str:
    """Return how many pods are ready."""
    if wanted == 0:
        return f"{ready} pods are still ready"
    if complete or ready < wanted:
        return f"{ready} of {wanted} pods are ready"
    return f"{wanted} of {wanted} pods are ready, but some are yet to be replaced or removed"
