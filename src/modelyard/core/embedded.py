"""Kubernetes' own types as fields of our specs, for the `api` modules of kinds.

They are plain dicts to us. The CRD holds their full schema, which `make generate` takes from the API server, so the API
server validates them, and we pass them on unchanged.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

EMBED = "x-modelyard-embed"

EnvVar = Annotated[dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.core.v1.EnvVar"})]
EnvFromSource = Annotated[dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.core.v1.EnvFromSource"})]
SecretKeySelector = Annotated[dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.core.v1.SecretKeySelector"})]
ConfigMapKeySelector = Annotated[
    dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.core.v1.ConfigMapKeySelector"})
]
ResourceRequirements = Annotated[
    dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.core.v1.ResourceRequirements"})
]
SecurityContext = Annotated[dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.core.v1.SecurityContext"})]
PodSecurityContext = Annotated[dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.core.v1.PodSecurityContext"})]
Probe = Annotated[dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.core.v1.Probe"})]
Toleration = Annotated[dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.core.v1.Toleration"})]
LocalObjectReference = Annotated[
    dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.core.v1.LocalObjectReference"})
]
MetricSpec = Annotated[dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.autoscaling.v2.MetricSpec"})]
AutoscalerBehavior = Annotated[
    dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior"})
]
ScaleTarget = Annotated[
    dict[str, Any], Meta(extra_json_schema={EMBED: "io.k8s.api.autoscaling.v2.CrossVersionObjectReference"})
]
