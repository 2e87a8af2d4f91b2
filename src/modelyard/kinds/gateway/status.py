"""The status of a Gateway: the state of its pods, whether it answers, and where it is reached.

From create to Ready it is written three times: when the children exist, when pods are ready, when the gateway answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.core.checks.gateway_models import GatewayModels
from modelyard.core.conditions import Condition, Problem, Truth, condition, failing
from modelyard.core.reasons import Reason
from modelyard.kinds.gateway import ingress, mcp_servers, routes, selected
from modelyard.kinds.gateway.api import GatewayStatus
from modelyard.kinds.gateway.ignored_fields import fields_ignored
from modelyard.kinds.gateway.naming import GATEWAY, account_name, service_url
from modelyard.kinds.gateway.reads import OWN_DEPLOYMENT, PROXY_DEPLOYMENT, PROXY_PODS, models_check
from modelyard.kinds.shared import autoscale, pod_problems, readiness, workloads

if TYPE_CHECKING:
    from modelyard.core.checks import Answer
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Asked, Object, Seen
    from modelyard.kinds.gateway.api import GatewaySpec, Phase
    from modelyard.kinds.gateway.decide import GatewayDecision

Json = dict[str, Any]

DISCOVERED: Final = "MCPsDiscovered"
_STUCK: Final = frozenset(
    {
        Reason.CRASH_LOOP,
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_CONFIG_INVALID,
        Reason.OUT_OF_MEMORY,
        Reason.PODS_REFUSED,
        Reason.ROLLOUT_STUCK,
    }
)
"""Problems of pods that do not pass by themselves."""


def on_error(before: Json, problem: Problem) -> Json:
    """Return the status fields to change when `summarise` cannot be called. Pods that were ready may still serve."""
    if problem.reason is not Reason.INVALID_SPEC:
        return {"phase": "Unknown"}
    return {} if before.get("readyReplicas") else {"phase": "Failed"}


def summarise(gateway: Object[GatewaySpec], seen: Seen, outcome: Outcome, decision: GatewayDecision) -> GatewayStatus:
    """Return the status of one Gateway."""
    spec, name, deployment = gateway.spec, gateway.meta.name, seen.one(OWN_DEPLOYMENT)
    rollout = workloads.read_rollout(deployment)
    question = models_check(gateway, seen)
    answer = (seen.answer(question) or last_answer(gateway, question, rollout.template)) if question else None
    pods = readiness.available(seen, rollout, spec.resources, readiness.BY_HAND, GATEWAY)
    hello = readiness.answered("Responding", answer, asked=bool(question), asking="the gateway is being asked")
    lacking = decision.lacking or proxy_problem(gateway, seen) or selected.find_unready(gateway, seen)
    ready = overall(outcome, rollout, lacking, pods, hello)
    return GatewayStatus(
        phase=phase(pods),
        message=ready.message,
        ready_replicas=rollout.ready,
        available_replicas=int(deployment.status.get("availableReplicas", 0)) if deployment else 0,
        url=url(gateway, seen),
        service_url=service_url(spec, name, gateway.meta.namespace),
        provider_summary=",".join(one.name for one in decision.providers if one.configured),
        model_count=int(answer.value.get("models", 0)) if answer else 0,
        service_account_name=account_name(spec, name),
        mcp_servers=decision.mcp_servers,
        mcp_server_count=len(decision.mcp_servers),
        checked_template=rollout.template if answer else "",
        conditions=(
            pods,
            progressing(rollout, pods),
            replica_failure(rollout, pods),
            hello,
            fields_ignored(spec, decision),
            ready,
            *undiscovered(gateway, seen),
            *autoscale.conditions(gateway.before, seen),
        ),
    )


def progressing(rollout: workloads.Rollout, pods: Condition) -> Condition:
    """Return the condition Progressing, which as in a Deployment is False only while a rollout is stuck."""
    stuck = not rollout.complete and pods.reason in _STUCK
    return condition("Progressing", not stuck, Reason(pods.reason), pods.message)


def replica_failure(rollout: workloads.Rollout, pods: Condition) -> Condition:
    """Return the condition ReplicaFailure: whether the cluster refuses to create pods."""
    problem = rollout.problem
    if problem and problem.reason is Reason.PODS_REFUSED:
        return failing("ReplicaFailure", problem, Truth.TRUE)
    reason = Reason.PODS_READY if pods.reason == Reason.PODS_READY else Reason.STARTING
    return condition("ReplicaFailure", False, reason, "no pod is refused")


def phase(pods: Condition) -> Phase:
    """Return in one word how the pods are."""
    if pods.status is Truth.TRUE:
        return "Running"
    return "Failed" if pods.reason in _STUCK else "Pending"


def last_answer(gateway: Object[GatewaySpec], question: Asked, template: str) -> Answer | None:
    """Return the answer in the stored status; None: there is none that holds.

    It may be of another pod template, or of a time when no service was selected.
    """
    assert isinstance(question.check, GatewayModels), "models_check"
    count = gateway.before.get("modelCount", 0)
    if question.check.offered and not count:
        return None
    return readiness.stored_answer(gateway.before, "Responding", template, {"models": count})


def proxy_problem(gateway: Object[GatewaySpec], seen: Seen) -> Problem | None:
    """Return why the proxy in front of selected services is not ready; None: it is, or the spec has no selector."""
    rollout = workloads.read_rollout(seen.one(PROXY_DEPLOYMENT))
    if gateway.spec.service_selector is None or rollout.complete:
        return None
    waiting = Problem(
        Reason.WAITING_FOR_PODS, f"the proxy in front of the selected services is not ready: {rollout.count}"
    )
    return pod_problems.first_problem(seen.all(PROXY_PODS), pod_problems.NO_RESOURCES) or rollout.problem or waiting


def overall(
    outcome: Outcome, rollout: workloads.Rollout, lacking: Problem | None, pods: Condition, hello: Condition
) -> Condition:
    """Return the condition Ready, from the others and from what is lacking besides, for this generation."""
    if refused := outcome.problem or next(iter(outcome.refused.values()), None):
        return failing("Ready", refused)
    if rollout.complete and lacking:
        return failing("Ready", lacking)
    return readiness.overall(outcome, rollout, pods, hello, f"all pods are ready; {hello.message}")


def undiscovered(gateway: Object[GatewaySpec], seen: Seen) -> tuple[Condition, ...]:
    """Return the condition MCPsDiscovered if tool servers cannot be looked for; empty: they can."""
    problem = mcp_servers.find_problem(gateway, seen)
    return (failing(DISCOVERED, problem),) if problem else ()


def url(gateway: Object[GatewaySpec], seen: Seen) -> str:
    """Return the URL for clients: by the host of the route, else of the Ingress, else of the Service.

    A name such as `*.example.com` is none that a client could ask for.
    """
    spec = gateway.spec
    routed = spec.gateway_api.http_route.hostnames if routes.is_served(spec, seen) else ()
    listed = [one.host for one in ingress.hosts(spec)] if spec.ingress.enabled else []
    for hosts, has_tls in ((routed, routes.has_tls(spec)), (listed, ingress.has_tls(spec))):
        if host := next((host for host in hosts if not host.startswith("*")), None):
            return f"{'https' if has_tls else 'http'}://{host}"
    return service_url(spec, gateway.meta.name, gateway.meta.namespace)
