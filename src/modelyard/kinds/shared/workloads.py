"""Deployments and Services: their children, and the state of a rollout, as `kubectl rollout status` reads it.

Numbers of an older generation are never trusted: right after a change they are those of before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from modelyard.core import names
from modelyard.core.conditions import Condition, Problem, Truth, condition, failing, stored_condition
from modelyard.core.diff import fingerprint
from modelyard.core.plan import Child, Replicas
from modelyard.core.reasons import Reason
from modelyard.core.resources import DEPLOYMENT, SERVICE, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.core.objects import Stored

Json = dict[str, Any]

DUAL_STACK: Final = "PreferDualStack"
"""The policy of a Service that has an address of each family which the cluster has."""
_ROLLING_UPDATE: Json = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
"""The defaults of Kubernetes. Stated, so that we own them and an apply of Recreate removes them: both are refused."""


class Rollout(Struct, frozen=True):
    """The state of a rollout. The defaults are those of a Deployment that does not exist."""

    wanted: int = 0
    ready: int = 0
    current: bool = False
    """Whether all existing pods are of the latest template."""
    settled: bool = False
    """Whether there are as many pods as wanted, all of the latest template."""
    template: str = ""
    """A fingerprint of the pod template."""
    problem: Problem | None = None

    @property
    def complete(self) -> bool:
        """Whether all pods that are wanted exist, are ready and of the latest template."""
        return self.settled and self.ready == self.wanted

    @property
    def count(self) -> str:
        """How many pods are ready, for a condition."""
        return ready_text(self.ready, self.wanted, complete=self.complete)

    def answers_for(self, checked: str) -> bool:
        """Return whether a request would be answered, and only by pods of the latest template.

        While replicas change, the numbers are a moment behind. If the template is the one that was `checked` before,
        there are no other pods.
        """
        return self.ready > 0 and (self.current or self.template == checked)


def child(
    resource: Resource, name: str, labels: Mapping[str, str], body: Json, replicas: Replicas | None = None
) -> Child:
    """Return a child with apiVersion, kind, name and labels. The runtime adds owner and namespace."""
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
    annotations: Mapping[str, str] | None = None,
) -> Child:
    """Return a Deployment. `progress_deadline` is in seconds; None: the default of Kubernetes.

    `annotations` are those of the Deployment, not of its pods; None: it has none but those of the runtime.
    """
    spec = {
        "selector": {"matchLabels": dict(selector)},
        "strategy": _ROLLING_UPDATE if strategy == _ROLLING_UPDATE["type"] else {"type": strategy},
        **({"progressDeadlineSeconds": progress_deadline} if progress_deadline else {}),
        "template": template,
    }
    planned = child(DEPLOYMENT, name, labels, {"spec": spec}, replicas)
    if not annotations:
        return planned
    metadata = {**planned.body["metadata"], "annotations": dict(annotations)}
    return structs.replace(planned, body={**planned.body, "metadata": metadata})


def service(
    name: str,
    labels: Mapping[str, str],
    selector: Mapping[str, str],
    port: int,
    kind: str = "ClusterIP",
    *,
    families: str = "",
) -> Child:
    """Return a Service in front of the container port named `http`. `families` is its policy; empty: the cluster's."""
    spec = {
        "type": kind,
        **({"ipFamilyPolicy": families} if families else {}),
        "selector": dict(selector),
        "ports": [{"name": "http", "port": port, "protocol": "TCP", "targetPort": "http"}],
    }
    return child(SERVICE, name, labels, {"spec": spec})


def service_problem(stored: Stored | None) -> Problem | None:
    """Return why a Service cannot be reached, as the proxy of its machine says; None: it can, as far as is known."""
    said = stored_condition(stored.status, names.REACHABLE) if stored else {}
    if said.get("status") != Truth.FALSE:
        return None
    message, _, remedy = str(said.get("message", "")).rpartition("; ")
    return Problem(Reason.NO_ANSWER, f"the Service cannot be reached: {message}", f"{remedy}, or change the port")


def read_rollout(stored: Stored | None) -> Rollout:
    """Return the state of the rollout of a Deployment; None is one that does not exist."""
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
            "fix what the message names, or ask the administrator of the cluster",
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
            "see `kubectl describe pod`",
        )
    return None


def available(
    rollout: Rollout, problem: Problem | None, remark: str = "", revival: str = "raise spec.replicas"
) -> Condition:
    """Return the condition Available. A rollout that is stuck is named, but does not make it False while pods serve.

    `remark` is why pods are not ready yet, if a node has said so; `revival` is what to do when there should be none.
    """
    if rollout.complete and rollout.wanted == 0:
        return condition("Available", False, Reason.SCALED_TO_ZERO, f"scaled to zero; {revival} to serve")
    if rollout.complete:
        return condition("Available", True, Reason.PODS_READY, rollout.count)
    if problem:
        return failing("Available", problem, Truth.TRUE if rollout.ready else Truth.FALSE)
    reason = Reason.ROLLING_OUT if rollout.ready else Reason.STARTING
    return condition("Available", rollout.ready > 0, reason, "; ".join(filter(None, (rollout.count, remark))))


def ready_text(ready: int, wanted: int, *, complete: bool) -> str:
    """Return how many pods are ready, for a condition."""
    if wanted == 0:
        return f"{ready} pods are still ready"
    if complete or ready < wanted:
        return f"{ready} of {wanted} pods are ready"
    return f"{wanted} of {wanted} pods are ready, but old ones are still being replaced"
