"""The page as it is installed in a cluster: a Deployment and a Service, without any rights. `install` writes them.

Its pods have no token of a service account: every request to the API server carries that of a user who has signed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.image import IMAGE
from modelyard.manifests.rbac import NAME, NAMESPACE

if TYPE_CHECKING:
    from modelyard.core.objects import Json

EXAMPLE_URL: Final = "https://models.example.com"
"""What users replace by the address under which their Ingress serves the page."""

_NAME: Final = "modelyard-page"
_PORT: Final = 8080
_LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "page"}
_AUTHORITY: Final = "/etc/modelyard/kube-root-ca"


def deployment() -> Json:
    """Return the page. One replica: sessions are in its memory."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": _NAME, "namespace": NAMESPACE, "labels": _LABELS},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": _pod()},
        },
    }


def service() -> Json:
    """Return the Service for an Ingress that ends TLS."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _NAME, "namespace": NAMESPACE, "labels": _LABELS},
        "spec": {"selector": _LABELS, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }


def _pod() -> Json:
    return {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "kube-root-ca", "configMap": {"name": "kube-root-ca.crt"}}],
        "containers": [_container()],
    }


def _container() -> Json:
    return {
        "name": "page",
        "image": IMAGE,
        "args": ["page", "--in-cluster", f"--url={EXAMPLE_URL}"],
        "ports": [{"name": "http", "containerPort": _PORT}],
        "volumeMounts": [{"name": "kube-root-ca", "mountPath": _AUTHORITY, "readOnly": True}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 30},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
