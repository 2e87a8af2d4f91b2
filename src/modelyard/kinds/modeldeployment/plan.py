"""The children of a ModelDeployment: a claim, the Job that fills it, and then the server.

The server is planned only for weights that are complete. While other weights are fetched, or cannot be, it is planned
for those that it serves: with the version of before, and everything else as the spec says now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.plan import Child, Plan, Replicas, RequeueAfter
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, JOB, SERVICE
from modelyard.kinds.contract import Owned
from modelyard.kinds.modeldeployment import claim, download, drain, prune, server
from modelyard.kinds.modeldeployment.download import Stage
from modelyard.kinds.modeldeployment.drain import Step
from modelyard.kinds.shared import autoscale, secrets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Ref
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec
    from modelyard.kinds.modeldeployment.decide import Decision

_FETCHING = (Stage.TO_BEGIN, Stage.RUNNING)
_NEXT = RequeueAfter(0.0, "what was deleted makes room for the next step")


def plan(md: Object[ModelDeploymentSpec], seen: Seen, decision: Decision) -> Plan:
    """Return the plan of one ModelDeployment; blocked if its weights can neither be fetched nor mounted.

    A version that is served already goes on without them.
    """
    if decision.drain:
        return _drain(md, seen, decision, decision.drain)
    servers = _servers(decision.served, seen) if decision.served else _services(md, seen, decision)
    unscaled = autoscale.obsolete(server.scaling(md.spec), seen)
    if problem := decision.problem:
        wait = secrets.requeue_after(md, seen.now, problem)
        return Plan(servers, unscaled, requeue_after=wait) if servers else Plan(blocked=problem, requeue_after=wait)
    stage = decision.stage
    old_jobs = download.obsolete(md, seen, stage)
    to_delete = _staying(old_jobs)
    # One Job at a time: the next reconcile, after the old one and its pods are gone, creates the new one.
    is_next = stage in _FETCHING and not old_jobs and not prune.is_under_way(md, seen)
    fetching = (download.job(md, seen, prune.folders_to_keep(md, seen)),) if is_next else ()
    return Plan(
        apply=(*claim.children(md, seen), *fetching, *servers),
        delete=(*to_delete, *unscaled, *_useless_servers(seen, decision)),
        requeue_after=_NEXT
        if to_delete
        else _soonest(download.requeue_after(md, seen, stage), autoscale.requeue_after(md.before, seen)),
    )


def finalize(md: Object[ModelDeploymentSpec], seen: Seen, decision: Decision) -> Plan:
    """Return the plan of an object that is being deleted: wait for requests in progress, and then nothing.

    The rest is done by garbage collection, which stops the pods. So nothing but time is waited for.
    """
    return _drain(md, seen, decision, Step.WAITING) if decision.drain is Step.WAITING else Plan()


def _drain(md: Object[ModelDeploymentSpec], seen: Seen, decision: Decision, step: Step) -> Plan:
    jobs, scalers, services, servers = (
        _staying(seen.all(Owned(resource))) for resource in (JOB, AUTOSCALER, SERVICE, DEPLOYMENT)
    )
    if step in (Step.REMOVING, Step.DONE):
        left = (*scalers, *servers, *services, *jobs, *drain.own_claim(md, seen))
        return Plan(delete=left, requeue_after=_NEXT if left else None)
    served = decision.served
    # In the step before, the Deployment is left exactly as it is: a drain that is taken back must restart nothing.
    stops = step is Step.STOPPING and drain.is_scaled_up(seen)
    # Fixed: one more pod, by another autoscaler or a late write of ours, and the drain would never end.
    stopped = (server.deployment(served, seen, Replicas(0, fixed=True)),) if stops and served else ()
    # One that does not tell its version cannot be planned: scaled down with another template, it would start new pods.
    unknown = servers if stops and not served else ()
    return Plan(
        apply=(*_services(md, seen, decision, closed=True), *stopped),
        # The autoscaler first goes: it would bring back pods.
        delete=(*scalers, *jobs, *unknown),
        requeue_after=drain.requeue_after(md, seen, decision.memory),
    )


def _servers(md: Object[ModelDeploymentSpec], seen: Seen) -> tuple[Child, ...]:
    name, spec = md.meta.name, md.spec
    return (server.deployment(md, seen), server.service(name, spec.port), *server.autoscaler(name, spec))


def _services(
    md: Object[ModelDeploymentSpec], seen: Seen, decision: Decision, *, closed: bool = False
) -> tuple[Child, ...]:
    """Return the Service that exists, closed, or open again: a drain may have been taken back.

    Its port is that of what is served, of which a Deployment that does not tell its version may say nothing.
    """
    served = decision.served
    return tuple(
        server.service(md.meta.name, served.spec.port if served else found.spec["ports"][0]["port"], closed=closed)
        for found in seen.all(Owned(SERVICE))
    )


def _useless_servers(seen: Seen, decision: Decision) -> tuple[Ref, ...]:
    """Return the Deployment whose weights are gone. Its pods could not start again, and would hold up the claim."""
    return _staying(seen.all(server.OWN)) if decision.has_lost_weights else ()


def _staying(found: Iterable[Stored]) -> tuple[Ref, ...]:
    """Return the objects that are not being deleted yet. Others have finalizers, and to ask again changes nothing."""
    return tuple(one.ref for one in found if not one.meta.deleting)


def _soonest(*waits: RequeueAfter | None) -> RequeueAfter | None:
    return min((wait for wait in waits if wait), key=lambda wait: wait.seconds, default=None)
