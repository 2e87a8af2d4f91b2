"""InferenceService: pods of an inference engine that serve a Model, behind a Service."""

from modelyard.core.checks.log_tail import LogTail
from modelyard.core.conditions import FIELDS_IGNORED
from modelyard.core.resources import (
    AUTOSCALER,
    DEPLOYMENT,
    POD,
    PRIORITY_CLASS,
    SECRET,
    SERVICE,
    VOLUME_CLAIM,
)
from modelyard.kinds.contract import Kind
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL
from modelyard.kinds.inferenceservice import api, decide, metal, plan, reads, rules, status
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.shared import autoscale

INFERENCE_SERVICE = Kind(
    resource=api.RESOURCE,
    spec=api.InferenceServiceSpec,
    status=api.InferenceServiceStatus,
    reads=reads.reads,
    decide=decide.decide,
    plan=plan.plan,
    summarise=status.summarise,
    looks_at=(MODEL, POD, PRIORITY_CLASS, SECRET, VOLUME_CLAIM),
    children=(DEPLOYMENT, SERVICE, AUTOSCALER, INFERENCE_MODEL),
    deletes=(DEPLOYMENT, AUTOSCALER, INFERENCE_MODEL),
    creates=(VOLUME_CLAIM,),
    asks=(LogTail,),
    conditions=("Available", "Progressing", "Degraded", FIELDS_IGNORED, "Ready"),
    optional_conditions=(
        "GPUAvailable",
        "ModelTransferHealthy",
        "VLLMSpecValid",
        "MemoryRequested",
        autoscale.AUTOSCALED,
        metal.MEMORY_PRESSURE,
    ),
    status_on_error=status.on_error,
    columns=api.COLUMNS,
    rules=rules.RULES,
    scale=True,
    short_names=("isvc",),
)
