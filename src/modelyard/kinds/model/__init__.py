"""Model: weights, where they come from, and whether they can be served."""

from modelyard.core.checks.log_tail import LogTail
from modelyard.core.checks.remote_weights import RemoteWeights
from modelyard.core.conditions import FIELDS_IGNORED
from modelyard.core.resources import JOB, NODE, POD, SECRET, VOLUME_CLAIM
from modelyard.kinds.contract import Kind
from modelyard.kinds.model import api, decide, plan, reads, rules, status

MODEL = Kind(
    resource=api.RESOURCE,
    spec=api.ModelSpec,
    status=api.ModelStatus,
    reads=reads.reads,
    decide=decide.decide,
    plan=plan.plan,
    summarise=status.summarise,
    looks_at=(POD, NODE, SECRET, VOLUME_CLAIM),
    children=(),
    creates=(JOB, VOLUME_CLAIM),
    deletes=(JOB,),
    asks=(RemoteWeights, LogTail),
    conditions=("Ready", "Available", "Progressing", "Degraded", "WeightsPresent", "SourceDrifted", FIELDS_IGNORED),
    status_on_error=status.on_error,
    columns=api.COLUMNS,
    rules=rules.RULES,
    short_names=("mdl",),
)
