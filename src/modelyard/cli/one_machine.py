"""Where Services listen on this machine, if the kubeconfig in use is that of a `modelyard up`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from modelyard.cluster.conversation import not_here
from modelyard.local.up.state_folder import StateFolder

if TYPE_CHECKING:
    from modelyard.cluster.conversation import LocalServices
    from modelyard.core.resources import Key


def local_services(kubeconfig: Path | None = None) -> LocalServices:
    """Return where Services listen on this machine; None: the kubeconfig that the environment names is in use."""
    file = (kubeconfig or Path(os.environ.get("KUBECONFIG", ""))).absolute()
    folder = StateFolder(file.parent)

    def address(service: Key, port: int) -> str:
        # Read each time: a page outlives the Services that were there at its start.
        found = folder.service_addresses().get(service, {}).get(port)
        return str(found) if found else ""

    return address if file == folder.kubeconfig else not_here
