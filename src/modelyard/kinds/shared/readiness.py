"""The conditions of an object whose pods serve and answer a check: Available, the answer, and Ready from both.

Pure. MCP and Agent state their conditions with it, and Orchestrator the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.core.checks import Answer
from modelyard.core.conditions import Condition, Truth, condition, failing, stored_condition
from modelyard.core.reasons import Reason
from modelyard.core.resources import DEPLOYMENT, POD
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import pod_problems, workloads

if TYPE_CHECKING:
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Seen

Json = dict[str, Any]


BY_SPEC: Final = "raise spec.replicas"
BY_HAND: Final = "scale its Deployment up"
"""What to do when pods were scaled to zero: change the spec, or the Deployment if the spec says nothing of it."""


def available(
    seen: Seen, rollout: workloads.Rollout, resources: Json | None, revival: str = BY_SPEC, component: str = ""
) -> Condition:
    """Return the condition Available: whether pods are ready. `resources` are those that the user set, if any.

    `component` tells the pods of an object that has others besides.
    """
    if seen.one(Owned(DEPLOYMENT, component)) is None:
        return condition("Available", False, Reason.STARTING, "the Deployment does not exist yet")
    remedies = pod_problems.DEFAULT_REMEDIES if resources else pod_problems.NO_RESOURCES
    pods = () if rollout.complete else seen.all(Owned(POD, component))
    trouble, remark = pod_problems.first_problem(pods, remedies), pod_problems.probe_remark(pods)
    return workloads.available(rollout, trouble or rollout.problem, remark, revival)


def answered(kind: str, answer: Answer | None, *, asked: bool, asking: str) -> Condition:
    """Return the condition of a check; `asking` is what it says until there is an answer."""
    if not asked:
        return condition(kind, Truth.UNKNOWN, Reason.WAITING_FOR_PODS, "checked once the pods are ready")
    if answer is None:
        return condition(kind, Truth.UNKNOWN, Reason.WAITING_FOR_ANSWER, asking)
    return condition(kind, answer.ok, answer.reason, answer.message)


def stored_answer(before: Json, kind: str, template: str, value: Json) -> Answer | None:
    """Return the answer in a stored status; None: it is of another pod template, or there is none.

    It stands until the first check after a restart of the operator. Without it, every restart would make all objects
    unready for a moment. `value` is what the status holds of it.
    """
    stored = stored_condition(before, kind)
    if before.get("checkedTemplate", "") != template or stored.get("reason") not in set(Reason):
        return None
    if stored.get("status") == Truth.UNKNOWN:
        return None
    return Answer(stored.get("status") == Truth.TRUE, Reason(stored["reason"]), stored.get("message", ""), value)


def overall(outcome: Outcome, rollout: workloads.Rollout, pods: Condition, answer: Condition, well: str) -> Condition:
    """Return the condition Ready, from Available and the condition of the check; `well` is what it says when True."""
    if outcome.problem:
        return failing("Ready", outcome.problem)
    if not rollout.complete or rollout.wanted == 0:
        return condition("Ready", False, Reason(pods.reason), pods.message)
    if answer.status is not Truth.TRUE:
        return condition("Ready", False, Reason(answer.reason), answer.message)
    return condition("Ready", True, Reason.READY, well)
