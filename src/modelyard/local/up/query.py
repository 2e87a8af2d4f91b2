"""Query a running `modelyard up` from another process: its record, its objects, its logs. `commands` calls it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelyard.core import names
from modelyard.core.errors import ModelyardError
from modelyard.core.resources import POD
from modelyard.kinds import ALL
from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.errors import NotFound
from modelyard.kube.transport import HttpTransport
from modelyard.local.up.rows import Row, rows
from modelyard.local.up.view import View

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import NoReturn

    from modelyard.local.up.state_folder import StateFolder, UpRecord

_SELECTED: Final = 20
_LOOK_AGAIN_SECONDS: Final = 1.0


class NotUp(ModelyardError):
    """No `modelyard up` runs in the folder, or it is still starting."""


class NoLogs(ModelyardError):
    """There are no pods, and no program, of a name."""


def running(folder: StateFolder) -> UpRecord:
    """Return the record of the `modelyard up` of a folder; NotUp when none runs."""
    record = folder.read_record()
    if not folder.path.exists():
        raise NotUp(f"there is no state folder {folder.path}; make it with {folder.hint('up')}, or correct --dir")
    if record is None:
        raise NotUp(f"nothing runs in {folder.path}; start it with {folder.hint('up')}")
    return record


async def query_rows(folder: StateFolder) -> list[Row]:
    """Return all objects of our kinds as rows of a table; NotUp when the API cannot be reached yet."""
    items = []
    async with connected(folder) as client:
        for kind in ALL:
            try:
                items += (await client.list_page(kind.resource)).items
            except NotFound:
                # The machine is starting, and the CRD of this kind is not applied yet.
                continue
    return rows(items, folder.service_addresses())


async def log_command(folder: StateFolder, namespace: str, name: str, *, follow: bool) -> list[str]:
    """Return the command that shows the logs of an object's pods or of a program of ours; NoLogs: there are none."""
    part = folder.logs / f"{Path(name).name}.log"
    if part.exists():
        return ["tail", "-n", "+1", *(["-F"] if follow else []), str(part)]
    record, selector = running(folder), f"{names.INSTANCE_LABEL}={names.short(name)}"
    async with connected(folder) as client:
        pods = (await client.list_page(POD, namespace, selector, limit=_SELECTED)).items
    if not pods:
        raise NoLogs(f"{name} has no pods in the namespace {namespace}; {folder.hint('status')} shows what there is")
    return [
        f"{record.assets}/kubectl",
        f"--kubeconfig={folder.kubeconfig}",
        f"--namespace={namespace}",
        "logs",
        f"--selector={selector}",
        "--all-containers",
        "--prefix",
        # Engines write no times, and what happened when is the first question to a log.
        "--timestamps",
        "--tail=-1",
        f"--max-log-requests={_SELECTED}",
        # The log of a container that waits is an error, which must not hide the logs of the others.
        "--ignore-errors",
        f"--follow={str(follow).lower()}",
    ]


async def follow_rows(folder: StateFolder, show: Callable[[list[Row]], object]) -> NoReturn:
    """Show the rows of all objects now and after each change; NotUp when the `modelyard up` of the folder ends."""
    view = View(folder.service_addresses)
    async with connected(folder) as client, view.following(client):
        while True:
            show(view.rows())
            # A watch does not end when the machine does: it tries again.
            running(folder)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                    await view.change()


@asynccontextmanager
async def connected(folder: StateFolder) -> AsyncIterator[Client]:
    """Yield a client of the API of a folder's `modelyard up`, with the rights of the administrator.

    NotUp when the API cannot be reached yet.
    """
    running(folder)
    if not folder.kubeconfig.exists():
        raise NotUp(f"the control plane of {folder.path} is still starting; try again in a moment")
    client = Client(HttpTransport(from_kubeconfig([folder.kubeconfig])))
    try:
        yield client
    finally:
        await client.close()
