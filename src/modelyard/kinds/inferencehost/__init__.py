"""InferenceHost: a machine outside the cluster that serves models, such as a Mac. InferenceModels are placed on it."""

from modelyard.core.hosts import HostProbe, UnloadModel
from modelyard.kinds.contract import Kind
from modelyard.kinds.inferencehost import api, decide, plan, reads, status
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL

INFERENCE_HOST = Kind(
    resource=api.RESOURCE,
    spec=api.InferenceHostSpec,
    status=api.InferenceHostStatus,
    reads=reads.reads,
    decide=decide.decide,
    memory=api.Notes,
    plan=plan.plan,
    finalize=plan.finalize,
    summarise=status.summarise,
    looks_at=(api.RESOURCE, INFERENCE_MODEL),
    children=(),
    asks=(HostProbe,),
    calls=(UnloadModel,),
    conditions=("Reachable", "Authenticated", "Schedulable", "Ready"),
    status_on_error=lambda _before, _problem: {"phase": api.Phase.NOT_READY.value},
    columns=api.COLUMNS,
    rules=api.RULES,
    short_names=("ihost",),
)
