"""Settings of pods that several kinds offer under the same names and with the same meaning, for their `api` modules."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from modelyard.core.embedded import (
    EnvVar,
    LocalObjectReference,
    PodSecurityContext,
    ResourceRequirements,
    SecurityContext,
)

MoreEnv = Annotated[
    tuple[EnvVar, ...], Meta(description="More environment variables. Those of fields win.", max_length=256)
]
PodResources = Annotated[
    ResourceRequirements | None,
    Meta(description="CPU and memory. Requests that are left out are 100m and 128Mi."),
]
PullSecrets = Annotated[
    tuple[LocalObjectReference, ...], Meta(description="Secrets for private registries.", max_length=16)
]
PodSecurity = Annotated[
    PodSecurityContext | None,
    Meta(description="Replaces, field by field, our defaults runAsNonRoot and seccomp RuntimeDefault."),
]
ContainerSecurity = Annotated[
    SecurityContext | None,
    Meta(description="Replaces, field by field, our defaults: no privilege escalation, all capabilities dropped."),
]
