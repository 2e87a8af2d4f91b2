"""ModelDeployment: a model from the download of its weights to the drain of its last pod."""

from modelyard.core.checks.engine_load import EngineLoad
from modelyard.core.checks.log_tail import LogTail
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, JOB, POD, SECRET, SERVICE, VOLUME_CLAIM
from modelyard.kinds.contract import Kind
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.modeldeployment import api, decide, drain, plan, reads, rules, status
from modelyard.kinds.shared import autoscale

MODEL_DEPLOYMENT = Kind(
    resource=api.RESOURCE,
    spec=api.ModelDeploymentSpec,
    status=api.ModelDeploymentStatus,
    reads=reads.reads,
    decide=decide.decide,
    memory=drain.Memory,
    plan=plan.plan,
    finalize=plan.finalize,
    summarise=status.summarise,
    looks_at=(api.RESOURCE, MODEL, POD, SECRET, VOLUME_CLAIM),
    children=(VOLUME_CLAIM, DEPLOYMENT, SERVICE, AUTOSCALER),
    creates=(JOB, VOLUME_CLAIM),
    deletes=(DEPLOYMENT, SERVICE, AUTOSCALER, JOB, VOLUME_CLAIM),
    asks=(LogTail, EngineLoad),
    conditions=("Ready", "Available", "WeightsPresent", "Progressing"),
    optional_conditions=("Drained", autoscale.AUTOSCALED),
    status_on_error=status.on_error,
    columns=api.COLUMNS,
    rules=rules.RULES,
    scale=True,
    short_names=("md",),
)
