"""The `modelyard up` of this user: its kubeconfig, where its Services listen, and what to do when it does not answer.

Called by the verbs for clusters, so that they work beside a `modelyard up` as well.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from modelyard.home import at_home
from modelyard.local.files import is_full
from modelyard.local.up.state_folder import StateFolder, usual_path

if TYPE_CHECKING:
    from modelyard.cluster.conversation import LocalServices
    from modelyard.core.resources import Key


def running_kubeconfig() -> Path | None:
    """Return the kubeconfig of the `modelyard up` in this user's usual folder; None: none runs there."""
    usual = usual_path()
    if usual is None:
        return None
    folder = StateFolder(usual)
    with suppress(PermissionError):
        return folder.kubeconfig if folder.is_held() and folder.kubeconfig.exists() else None
    return None


def advice(kubeconfig: Path | None) -> str:
    """Return what to do about a cluster that does not answer, if a `modelyard up` has to do with it; empty: none has.

    None: the kubeconfig that the environment names is in use.
    """
    used = _used(kubeconfig)
    if used and not used.is_held():
        return f"nothing runs in {used.path}; start it with {used.hint('up')}"
    if used and is_full(used.path):
        return f"the disk that holds {used.path} is full; free 1 GB or more"
    running = running_kubeconfig()
    return f"a `modelyard up` runs on this machine, with the kubeconfig {running}" if running and not used else ""


def local_services(kubeconfig: Path | None = None) -> LocalServices:
    """Return where Services listen on this machine; None: the kubeconfig that the environment names is in use."""
    folder = _used(kubeconfig)

    def address(service: Key, port: int) -> str:
        # Read each time: a page outlives the Services that were there at its start.
        found = folder.service_addresses().get(service, {}).get(port) if folder else None
        return str(found) if found else ""

    return address


def _used(kubeconfig: Path | None) -> StateFolder | None:
    """Return the folder that a kubeconfig belongs to; None: it is none of a `modelyard up`."""
    file = at_home(kubeconfig or Path(os.environ.get("KUBECONFIG", "")))
    # The file itself is a link into the folder, so only its folder may be resolved.
    folder = StateFolder(file.parent)
    # What no file can be called is said by what reads it.
    with suppress(OSError):
        return folder if file.name == folder.kubeconfig.name and folder.is_prepared() else None
    return None
