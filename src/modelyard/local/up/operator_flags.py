"""How `modelyard up` starts the operator. `machine` starts it; `plan --live` and `doctor` know it by its identity."""

from __future__ import annotations

from typing import Final

from modelyard.local.node.proxy.addresses import POD_NETWORK, SHOWN_NETWORK

IDENTITY: Final = "one-machine"
"""What holds the Lease of the leader election on one machine."""
FLAGS: Final = (
    # It is the only replica. With the same identity at every start, it does not wait for the Lease of the last one.
    f"--identity={IDENTITY}",
    # No kubelet probes it and no Prometheus scrapes it, and these ports would listen beyond loopback.
    "--health-port=0",
    "--metrics-port=0",
    # Pods are processes of this user, who may read these files anyway.
    "--allowed-host-path-roots=/",
    "--sees-node-files",
    # Pods can dial whatever this user can, so the operator may check servers of private networks as well.
    "--allowed-remote-hosts=0.0.0.0/0,::/0",
    # What the cluster is shown as the address of a pod leads nowhere.
    f"--pod-network={SHOWN_NETWORK}={POD_NETWORK}",
)
