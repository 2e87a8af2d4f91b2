"""The policy of a cluster: what its administrator decides for all objects with flags of `modelyard run`.

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
    """Whether services share the claim that caches weights."""

    SHARED = "shared"
    PER_SERVICE = "perService"


class AccessMode(StrEnum):
    """The access mode of the shared claim."""

    ONE_NODE = "ReadWriteOnce"
    MANY_NODES = "ReadWriteMany"


class Policy(Struct, frozen=True):
    """The policy. The defaults are those of an installation without flags."""

    cache_path: str = "/models"
    """Where the cache is mounted; empty: there is none, and every pod fetches its weights."""
    cache_size: str = "100Gi"
    cache_class: str = ""
    cache_access: AccessMode = AccessMode.ONE_NODE
    cache_mode: CacheMode = CacheMode.SHARED
    revalidate_seconds: float = seconds(REVALIDATE)
    """How often the source of a Model is checked for a new version."""
    ca_configmap: str = ""
    """A ConfigMap in the namespace of the pods, with CA certificates that downloads trust besides the public ones."""
    fetch_image: str = IMAGE
    fs_group: int = 102
    """The fsGroup of pods; 0 or less: neither fsGroup nor runAsUser is set."""
    images: dict[str, str] = {}
    """Images by engine, in place of the built-in ones."""
    local_roots: tuple[str, ...] = ()
    """Folders of nodes that local sources may be in; empty: local sources are not allowed."""
    sees_node_files: bool = False
    """Whether the operator runs on the only node and sees its files, so that it can check local sources."""
    remote_hosts: tuple[str, ...] = ()
    """Host names, addresses and CIDRs that the operator may connect to although they are not public."""
    host_networks: tuple[str, ...] | None = None
    """The same for InferenceHosts, in place of `remote_hosts`; None: as for everything else."""
    intel_gpu_resource: str = "gpu.intel.com/i915"
    namespace: str = ""
    """The only namespace that the operator serves; empty: all of them."""
    door: bool = False
    """Whether each namespace with models gets one address for all of them."""

    @property
    def volume_group(self) -> dict[str, int]:
        """The fsGroup of a pod, as a fragment of its securityContext; empty: the cluster chooses."""
        return {"fsGroup": self.fs_group} if self.fs_group > 0 else {}

    @property
    def chooses_users(self) -> bool:
        """Whether we set runAsUser. OpenShift chooses users itself, and refuses pods that name one."""
        return self.fs_group > 0
