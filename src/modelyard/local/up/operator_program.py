"""The operator as a child process, under the role that `deploy/` gives it in a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from modelyard.local.program import Program
from modelyard.manifests.rbac import NAME, NAMESPACE

if TYPE_CHECKING:
    from modelyard.local.controlplane import ControlPlane

_GROUPS: Final = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
_FLAGS: Final = (
    # It is the only one. With a name that stays, it does not wait for the lease of the one before.
    "--identity=one-machine",
    # Nobody asks, and these would listen beyond loopback.
    "--health-port=0",
    "--metrics-port=0",
    # Pods are processes of this user, who may read these files anyway.
    "--allowed-host-path-roots=/",
    # Pods dial what this user can reach anyway: a server of this machine or of the house may be looked at, too.
    "--allowed-remote-hosts=0.0.0.0/0,::/0",
)


def operator_program(controlplane: ControlPlane) -> Program:
    """Return the operator of a control plane, ready to be started."""
    # By certificate: a token of a service account ends after a day, and this may run for weeks.
    kubeconfig = controlplane.client_kubeconfig(f"system:serviceaccount:{NAMESPACE}:{NAME}", _GROUPS)
    return Program(
        [sys.executable, "-P", "-m", "modelyard.local.lifeline", "modelyard", "run", *_FLAGS],
        log=controlplane.folder / "logs" / "operator.log",
        name="operator",
        env={"KUBECONFIG": str(kubeconfig)},
    )
