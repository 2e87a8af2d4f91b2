"""InferenceModel: a model that machines outside the cluster serve, under one DNS name of the cluster."""

from modelyard.core.conditions import FIELDS_IGNORED
from modelyard.core.hosts import LoadModel, UnloadModel
from modelyard.core.resources import ENDPOINT_SLICE, ENDPOINTS, SERVICE
from modelyard.kinds.contract import Kind
from modelyard.kinds.inferencehost.api import RESOURCE as INFERENCE_HOST
from modelyard.kinds.inferencemodel import api, decide, plan, pressure, reads, status

INFERENCE_MODEL = Kind(
    resource=api.RESOURCE,
    spec=api.InferenceModelSpec,
    status=api.InferenceModelStatus,
    reads=reads.reads,
    decide=decide.decide,
    memory=api.Memory,
    # Each decides over the memory that the others have left on the hosts.
    pool="inferencehosts",
    plan=plan.plan,
    finalize=plan.finalize,
    summarise=status.summarise,
    looks_at=(INFERENCE_HOST, api.RESOURCE, ENDPOINTS),
    children=(SERVICE, ENDPOINT_SLICE),
    deletes=(SERVICE, ENDPOINT_SLICE),
    calls=(LoadModel, UnloadModel),
    conditions=("Placed", "Ready"),
    optional_conditions=(
        "LoadFailed",
        "ProbeSuspect",
        "DrainBlocked",
        "ForeignEndpoints",
        pressure.TYPE,
        FIELDS_IGNORED,
    ),
    columns=api.COLUMNS,
    rules=api.RULES,
    scale=True,
    short_names=("imodel",),
)
