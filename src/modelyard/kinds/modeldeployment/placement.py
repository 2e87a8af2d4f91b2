"""Where the pods of a ModelDeployment may run: the Job that downloads and the server, on the same nodes.

A claim is bound to the node, or the zone, of the first pod that uses it. If the Job ran where no GPU is, no pod with
GPUs could ever follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.core.resources import VOLUME_CLAIM
from modelyard.kinds.contract import Named
from modelyard.kinds.modeldeployment import weights
from modelyard.kinds.modeldeployment.api import DEPLOYMENT_LABEL
from modelyard.kinds.shared.pods import without_empty

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec

Json = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
MANY_NODES: Final = "ReadWriteMany"
_GPU_NODES: Final = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
"""Labels of nodes with GPUs: by NVIDIA's GPU feature discovery, or by Node Feature Discovery."""
MOVE: Final = (
    "without ReadWriteMany all pods have to be on one node: make room for one more there, or, to let them move, set "
    "spec.replicas to 0 until they are gone"
)
"""The remedy if a pod may not run where the others are. A rollout would wait for it for ever."""
_TOLERATION: Final[Json] = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}


def placement(md: Object[ModelDeploymentSpec], seen: Seen) -> Json:
    """Return nodeSelector, tolerations and affinity, as fields of a pod."""
    spec = md.spec
    own = [_TOLERATION] if spec.gpus else []
    fields = {
        "nodeSelector": spec.node_selector,
        "tolerations": [*own, *spec.tolerations],
        "affinity": {**_gpu_affinity(spec), **_one_node(md, seen)},
    }
    return without_empty(fields)


def _gpu_affinity(spec: ModelDeploymentSpec) -> Json:
    if not spec.gpus:
        return {}
    wanted = [{"key": label, "operator": "In", "values": ["true"]} for label in _GPU_NODES]
    terms = [{"matchExpressions": [expression]} for expression in wanted]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _one_node(md: Object[ModelDeploymentSpec], seen: Seen) -> Json:
    """Return the affinity of all pods to each other; empty: several nodes can mount the volume.

    Without it, the pods of a rollout could go to a second node and wait there for a volume that the first one holds.
    The first pod matches its own term, so it may go anywhere.
    """
    if _is_for_many_nodes(md, seen):
        return {}
    term = {
        "labelSelector": {"matchLabels": {DEPLOYMENT_LABEL: md.meta.name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _is_for_many_nodes(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    storage = md.spec.storage
    if weights.is_fetched(md.spec) and not storage.existing_claim:
        return storage.access_mode == MANY_NODES
    claim = seen.one(Named(VOLUME_CLAIM, weights.mounted_claim(md)))
    modes = claim.spec.get("accessModes", ()) if claim else ()
    return bool({MANY_NODES, "ReadOnlyMany"} & set(modes))
