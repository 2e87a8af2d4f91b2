"""The operator itself as it is installed: namespace, Deployment, disruption budget, priority classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.image import IMAGE
from modelyard.manifests.rbac import NAME, NAMESPACE

if TYPE_CHECKING:
    from modelyard.core.objects import Json

HEALTH_PORT: Final = 8081
METRICS_PORT: Final = 9090

# Not `app.kubernetes.io/managed-by`: the operator watches by that label and would take itself for a child.
_LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "operator"}

_PRIORITIES: Final = (
    ("critical", 1_000_000, "PreemptLowerPriority", "Must run, whatever else has to make room."),
    ("high", 100_000, "PreemptLowerPriority", "Makes room for itself before ordinary services."),
    ("normal", 10_000, "PreemptLowerPriority", "What a service gets that asks for nothing else."),
    ("low", 1_000, "PreemptLowerPriority", "Gives way to ordinary services."),
    ("batch", 100, "Never", "Waits for room and gives way to everything."),
)


def namespace() -> Json:
    """Return the operator's namespace, in which only restricted pods may run."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def priority_classes() -> list[Json]:
    """Return the classes that inference services choose from; pods that name a missing class are refused."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"llmkube-{name}"},
            "value": value,
            "preemptionPolicy": policy,
            "description": description,
        }
        for name, value, policy, description in _PRIORITIES
    ]


def deployment(image: str = IMAGE) -> Json:
    """Return the operator: one replica leads, the other stands by with warm caches."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": _LABELS},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": _pod(image)},
        },
    }


def disruption_budget() -> Json:
    """Return what keeps a node drain from taking both replicas at once."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": _LABELS},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}},
    }


def _pod(image: str) -> Json:
    return {
        "serviceAccountName": NAME,
        "securityContext": {
            # The image names its user by a number. Named here, too, OpenShift would refuse it.
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _LABELS},
            }
        ],
        "containers": [_container(image)],
    }


def _container(image: str) -> Json:
    return {
        "name": NAME,
        "image": image,
        "args": ["run"],
        "env": [
            _from_pod("POD_NAME", "metadata.name"),
            _from_pod("POD_NAMESPACE", "metadata.namespace"),
            # Stated although it is the default: replacing the image everywhere in this file then replaces this one.
            {"name": "MODELYARD_INIT_CONTAINER_IMAGE", "value": image},
        ],
        "ports": [
            {"name": "health", "containerPort": HEALTH_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        "livenessProbe": _probe("/healthz", failures=3),
        "readinessProbe": _probe("/readyz", failures=1),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def _from_pod(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probe(path: str, failures: int) -> Json:
    return {
        "httpGet": {"path": path, "port": "health"},
        "initialDelaySeconds": 5,
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
