"""ZerfooInferenceService: pods that serve a model, behind a Service."""

from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, POD, SECRET, SERVICE, VOLUME_CLAIM
from modelyard.kinds.contract import Kind
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.shared import autoscale
from modelyard.kinds.zerfooinferenceservice import api, decide, plan, reads, rules, status

ZERFOO_INFERENCE_SERVICE = Kind(
    resource=api.RESOURCE,
    spec=api.ZerfooInferenceServiceSpec,
    status=api.ZerfooInferenceServiceStatus,
    reads=reads.reads,
    decide=decide.decide,
    plan=plan.plan,
    summarise=status.summarise,
    looks_at=(MODEL, POD, SECRET, VOLUME_CLAIM),
    children=(DEPLOYMENT, SERVICE, AUTOSCALER),
    deletes=(AUTOSCALER,),
    creates=(VOLUME_CLAIM,),
    conditions=("PrimaryReady", "Ready"),
    optional_conditions=(autoscale.AUTOSCALED,),
    status_on_error=status.on_error,
    columns=api.COLUMNS,
    rules=rules.RULES,
    scale=True,
    short_names=("zis",),
)
