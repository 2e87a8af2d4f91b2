"""Door: one address for all models of a namespace. An internal kind: its object is the Namespace, and it has no CRD.

Served only with `modelyard run --door`. On one machine `local/up/door` takes its place.
"""

from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, SERVICE
from modelyard.kinds.contract import Kind
from modelyard.kinds.door import api, plan, reads
from modelyard.kinds.shared.service_refs import RESOURCES

DOOR = Kind(
    resource=api.RESOURCE,
    spec=api.NamespaceSpec,
    status=None,
    reads=reads.reads,
    plan=plan.plan,
    summarise=None,
    looks_at=RESOURCES,
    children=(CONFIG_MAP, DEPLOYMENT, SERVICE),
    deletes=(CONFIG_MAP, DEPLOYMENT, SERVICE),
    conditions=(),
)
