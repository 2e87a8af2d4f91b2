"""The objects that make a door: an Envoy, the ConfigMap with its routes, a Service. Without a model there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core import names
from modelyard.core.plan import Plan, Replicas
from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, SERVICE
from modelyard.kinds.contract import Owned
from modelyard.kinds.door.api import NAME, PORT, RESOURCE
from modelyard.kinds.shared import labels, pods, workloads
from modelyard.kinds.shared.envoy_door import door_bootstrap, door_files
from modelyard.kinds.shared.envoy_pod import IN_POD, envoy_pod
from modelyard.kinds.shared.offered_models import find_backends

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.door.api import NamespaceSpec

_SELECTOR: Final = {"app": NAME}


def plan(namespace: Object[NamespaceSpec], seen: Seen) -> Plan:
    """Return everything that should exist for the door of a namespace; without a model, the removal of all of it."""
    found = find_backends(namespace.meta.name, seen)
    if not found:
        owned = (child for resource in (SERVICE, DEPLOYMENT, CONFIG_MAP) for child in seen.all(Owned(resource)))
        return Plan(delete=tuple(child.ref for child in owned))
    # Not `app`: an MCP with the name of the namespace selects its pods by that.
    own = {**labels.common(RESOURCE, namespace.meta.name), names.NAME_LABEL: NAME, **_SELECTOR}
    pod = envoy_pod(door_bootstrap(IN_POD), NAME, chooses_user=seen.policy.chooses_users)
    template = pods.pod_template(own, pod)
    return Plan(
        apply=(
            # Before the pods, which would wait a minute for it.
            workloads.child(CONFIG_MAP, NAME, own, {"data": door_files(found).data}),
            workloads.deployment(NAME, own, _SELECTOR, Replicas(1), template),
            workloads.service(NAME, own, _SELECTOR, PORT),
        )
    )
