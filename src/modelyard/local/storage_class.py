"""The default StorageClass of a cluster on this machine. Simulated nodes and the provisioner create it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.resources import Resource

if TYPE_CHECKING:
    from modelyard.core.objects import Json

STORAGE_CLASS: Final = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)


def standard_class(provisioner: str) -> Json:
    """Return the StorageClass `standard`, the default one, with this provisioner."""
    return {
        "apiVersion": STORAGE_CLASS.api_version,
        "kind": STORAGE_CLASS.kind,
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
