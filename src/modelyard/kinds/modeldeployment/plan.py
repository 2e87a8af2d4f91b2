"""The children of a ModelDeployment: a claim, the Job that fills it, and then the server.

The server is planned only for weights that are complete. While other weights are fetched, the running Deployment is
left exactly as it is: it serves what it served before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.plan import Child, Plan, RequeueAfter
from modelyard.kinds.modeldeployment import claim, download, server
from modelyard.kinds.modeldeployment.download import Stage
from modelyard.kinds.shared import autoscale, secrets

if TYPE_CHECKING:
    from modelyard.core.resources import Ref
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec
    from modelyard.kinds.modeldeployment.decide import Decision

_FETCHING = (Stage.TO_BEGIN, Stage.RUNNING)


def plan(md: Object[ModelDeploymentSpec], seen: Seen, decision: Decision) -> Plan:
    """Return the plan of one ModelDeployment; blocked while its weights can neither be fetched nor mounted."""
    if problem := decision.problem:
        return Plan(blocked=problem, requeue_after=secrets.requeue_after(md, seen.now, problem))
    stage = decision.stage
    old_jobs = download.obsolete(md, seen, stage)
    # One Job at a time: the next reconcile, after the old one is deleted, creates the new one.
    fetching = (download.job(md, seen),) if stage in _FETCHING and not old_jobs else ()
    return Plan(
        apply=(*claim.children(md, seen), *fetching, *_servers(md, seen, stage)),
        delete=(
            *old_jobs,
            *autoscale.obsolete(server.scaling(md.spec), seen),
            *_useless_servers(seen, decision),
        ),
        requeue_after=_soonest(download.requeue_after(md, seen, stage), autoscale.requeue_after(md.before, seen)),
    )


def _servers(md: Object[ModelDeploymentSpec], seen: Seen, stage: Stage) -> tuple[Child, ...]:
    if stage is not Stage.PRESENT:
        return ()
    name = md.meta.name
    return (server.deployment(md, seen), server.service(name, md.spec), *server.autoscaler(name, md.spec))


def _useless_servers(seen: Seen, decision: Decision) -> tuple[Ref, ...]:
    """Return the Deployment whose weights are gone. Its pods could not start again, and would hold up the claim."""
    return tuple(found.ref for found in seen.all(server.OWN)) if decision.has_lost_weights else ()


def _soonest(*waits: RequeueAfter | None) -> RequeueAfter | None:
    return min((wait for wait in waits if wait), key=lambda wait: wait.seconds, default=None)
