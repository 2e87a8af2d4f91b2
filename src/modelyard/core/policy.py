"""What an administrator decides for all objects of a cluster: the flags of `modelyard run`.

Kinds see it as part of `Seen`, so that the same object under the same policy always gives the same plan.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from modelyard.core.image import IMAGE
from modelyard.core.quantities import seconds

REVALIDATE: Final = "1h"


class CacheMode(StrEnum):
    """Who shares the claim that keeps weights."""

    SHARED = "shared"
    PER_SERVICE = "perService"


class AccessMode(StrEnum):
    """From how many nodes the claim can be mounted."""

    ONE_NODE = "ReadWriteOnce"
    MANY_NODES = "ReadWriteMany"


class Policy(Struct, frozen=True):
    """What an administrator decides. The defaults are those of an installation without flags."""

    cache_path: str = "/models"
    """Where pods find the cache; empty: no cache, weights are fetched for each pod."""
    cache_size: str = "100Gi"
    cache_class: str = ""
    cache_access: AccessMode = AccessMode.ONE_NODE
    cache_mode: CacheMode = CacheMode.SHARED
    revalidate_seconds: float = seconds(REVALIDATE)
    """How often upstream is asked whether a model changed."""
    ca_configmap: str = ""
    """A ConfigMap, in the namespace of the pods, with certificates that downloads trust besides the public ones."""
    fetch_image: str = IMAGE
    fs_group: int = 102
    """The group that volumes belong to; 0 or less: none, and no users either."""
    images: dict[str, str] = {}
    """Images by engine, in place of the built-in ones."""
    local_roots: tuple[str, ...] = ()
    """Folders of nodes that local sources may be in; empty: there are no local sources."""
    remote_hosts: tuple[str, ...] = ()
    """Host names, addresses and CIDRs that the operator may ask although they are not public."""
    intel_gpu_resource: str = "gpu.intel.com/i915"

    @property
    def volume_group(self) -> dict[str, int]:
        """The group of volumes, as a pod states it."""
        return {"fsGroup": self.fs_group} if self.fs_group > 0 else {}

    @property
    def chooses_users(self) -> bool:
        """Whether we say as whom pods run. OpenShift does it itself, and refuses pods that say it."""
        return self.fs_group > 0
