"""Which GPU of this machine belongs to which container: the device manager of the kubelet.

The scheduler has counted them already. Here containers get the numbers of their GPUs, each one whole and to one
container at a time.
"""

from __future__ import annotations

from typing import Final

NVIDIA: Final = "nvidia.com/gpu"


class Gpus:
    """The GPUs of this machine, free or held by a container."""

    def __init__(self, ids: tuple[str, ...] = ()) -> None:
        self._free = list(ids)
        self._held: dict[tuple[str, str], tuple[str, ...]] = {}
        self.any = bool(ids)

    def take(self, uid: str, container: str, count: int) -> tuple[str, ...] | None:
        """Return the numbers of a container's GPUs, the same ones at every start; None: too few are free."""
        owner = (uid, container)
        if owner not in self._held:
            if count > len(self._free):
                return None
            self._held[owner], self._free = tuple(self._free[:count]), self._free[count:]
        return self._held[owner]

    def give_back(self, uid: str) -> None:
        """Free the GPUs of a pod that has ended. A pod that holds none is fine."""
        for owner in [owner for owner in self._held if owner[0] == uid]:
            self._free = sorted([*self._free, *self._held.pop(owner)])
