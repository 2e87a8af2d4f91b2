"""ZerfooInferenceService: pods that serve a model, behind a Service, and a canary that gets a share of the requests."""

from modelyard.core.checks.log_tail import LogTail
from modelyard.core.checks.router_report import RouterReport
from modelyard.core.resources import AUTOSCALER, CONFIG_MAP, DEPLOYMENT, POD, SECRET, SERVICE, VOLUME_CLAIM
from modelyard.kinds.contract import Kind
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.shared import autoscale
from modelyard.kinds.shared.http_route import HTTP_ROUTE
from modelyard.kinds.zerfooinferenceservice import api, decide, plan, reads, rules, status

ZERFOO_INFERENCE_SERVICE = Kind(
    resource=api.RESOURCE,
    spec=api.ZerfooInferenceServiceSpec,
    status=api.ZerfooInferenceServiceStatus,
    reads=reads.reads,
    decide=decide.decide,
    memory=decide.Memory,
    plan=plan.plan,
    summarise=status.summarise,
    looks_at=(MODEL, POD, SECRET, VOLUME_CLAIM),
    children=(DEPLOYMENT, SERVICE, AUTOSCALER, CONFIG_MAP, HTTP_ROUTE),
    deletes=(DEPLOYMENT, SERVICE, AUTOSCALER, CONFIG_MAP, HTTP_ROUTE),
    creates=(VOLUME_CLAIM,),
    asks=(LogTail, RouterReport),
    conditions=("PrimaryReady", "Ready"),
    optional_conditions=("CanaryReady", "TrafficSplit", autoscale.AUTOSCALED),
    status_on_error=status.on_error,
    columns=api.COLUMNS,
    rules=rules.RULES,
    scale=True,
    short_names=("zis",),
)
