"""One address for all models of this machine: the Envoy that routes by `model`, and the file with its routes.

`machine` runs it as a part of the machine, like the operator. It follows the objects that serve models and the
addresses of their Services, and replaces the file when they change; Envoy reads it again by itself. A machine without
Envoy works as well: each service has an address of its own.

On a cluster the counterpart is the Deployment `modelyard-door`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NoReturn

import aiohttp
import msgspec
import structlog

from modelyard.core.errors import ModelyardError
from modelyard.kinds.shared.door_models import DoorModel, backends
from modelyard.kinds.shared.envoy import Address, Proxy
from modelyard.kinds.shared.envoy_door import door_bootstrap, door_files
from modelyard.kinds.shared.envoy_routes import VERSION_PATH
from modelyard.kinds.shared.service_refs import RESOURCES, offered_model
from modelyard.kube.watch import Target, follow
from modelyard.local.envoy import bootstrap_words, envoy_program, fitted
from modelyard.local.files import private_folder, write_private
from modelyard.local.node.process.reaper import MARK
from modelyard.local.ports import PortNumber, free_ports, is_free, take_port
from modelyard.local.program import Program
from modelyard.local.retry import pause
from modelyard.local.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.kinds.shared.envoy import Files
    from modelyard.kube.client import Client
    from modelyard.local.node.proxy.service_proxy import ServiceProxy

DEFAULT_PORT: Final = 11400
_HOST: Final = "127.0.0.1"
_WORKERS: Final = "2"
_TRY_AGAIN_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05
_PATIENCE: Final = aiohttp.ClientTimeout(total=5)
_log = structlog.get_logger()


class PortTaken(ModelyardError):
    """Another program uses the port that the user wants for the door."""


def choose_port(state: Path, wanted: int | None) -> int:
    """Return the port of the door, and store it in the state folder.

    It is the one that is wanted, and PortTaken when another program uses it. With None it is that of the last start,
    else 11400, else any that is free.
    """
    file = state / "door-port.json"
    if wanted is not None and not is_free(wanted):
        raise PortTaken(f"port {wanted} of {_HOST} is taken; end the program that has it, or change --door-port")
    port = wanted or next(filter(take_port, (*_stored_port(file), DEFAULT_PORT)), None) or free_ports(1)[0]
    write_private(file, msgspec.json.encode(port))
    return port


def _stored_port(file: Path) -> tuple[int, ...]:
    """Return the port of the last start; empty: there is no file, or a damaged one."""
    try:
        return (msgspec.json.decode(file.read_bytes(), type=PortNumber),)
    except (FileNotFoundError, msgspec.MsgspecError):
        return ()


class Door:
    """The door of one machine: a program to run, and its routes. Made inside an event loop.

    `envoy` is the program of Envoy, `port` where clients find it.
    """

    def __init__(self, envoy: Path, state: Path, port: int, proxy: ServiceProxy) -> None:
        self._proxy, self._address = proxy, Address(_HOST, port)
        self._folder = private_folder(state / "door")
        self._changed = asyncio.Event()
        self._written = asyncio.Event()
        self._stores = {kind: Store(self._changed.set) for kind in RESOURCES}
        self._version = ""
        self.program = Program(
            [envoy, *_words(self._address, self._folder)],
            log=state / "logs" / "door.log",
            name="door",
            # Envoy does not watch a lifeline. By this mark the reaper ends it if `modelyard up` is killed.
            env={MARK: str(state)},
        )

    @property
    def url(self) -> str:
        """The base URL of OpenAI's API, as clients are told it."""
        return f"http://{self._address}/v1"

    async def written(self) -> None:
        """Wait until the file with the routes exists, of all services that there were at the start."""
        await self._written.wait()

    async def run(self, client: Client) -> NoReturn:
        """Keep the file with the routes up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, store in self._stores.items():
                group.create_task(follow(client, Target(kind), store))
            group.create_task(self._follow_addresses())
            is_done = True
            while True:
                await pause(None if is_done else _TRY_AGAIN_SECONDS, until=self._changed)
                self._changed.clear()
                is_done = not all(store.is_filled for store in self._stores.values()) or self._write()

    async def _follow_addresses(self) -> NoReturn:
        while True:
            await self._proxy.move()
            self._changed.set()

    def _write(self) -> bool:
        """Replace the file if the routes have changed; return whether that could be done."""
        files = door_files(backends(self._found()))
        try:
            self._replace(files)
        except OSError as error:
            # A full disk is no reason to stop serving: Envoy goes on with what it has read.
            _log.warning("the routes of the door cannot be written", error=str(error))
            return False
        self._written.set()
        return True

    def _replace(self, files: Files) -> None:
        if files.version == self._version:
            return
        for name, text in files.data.items():
            write_private(self._folder / name, text.encode())
        self._version = files.version

    def _found(self) -> dict[DoorModel, Address]:
        """Return the models whose Services have an address, ready or not."""
        models = (offered_model(each) for store in self._stores.values() for each in store.items.values())
        places = {model: self._place(model) for model in models if model}
        return {model: place for model, place in places.items() if place}

    def _place(self, model: DoorModel) -> Address | None:
        # Such a Service has one port.
        ports = self._proxy.service_addresses.get(model.place, {}).values()
        return next((Address(*place) for place in ports), None)

    async def open(self) -> None:
        """Wait until Envoy answers, with the routes that were written last."""
        async with aiohttp.ClientSession(timeout=_PATIENCE) as session:
            while not await self._is_open(session):  # noqa: ASYNC110 - Envoy sends no event
                await asyncio.sleep(_POLL_SECONDS)

    async def _is_open(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"http://{self._address}{VERSION_PATH}") as answer:
                return bool((await answer.json()).get("version") == self._version)
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return False


def _words(address: Address, folder: Path) -> list[str]:
    admin = Address(_HOST, free_ports(1)[0])
    bootstrap = fitted(door_bootstrap(Proxy(address, str(folder))), address.host, address.port, admin)
    return [*bootstrap_words(bootstrap), "--disable-hot-restart", "--concurrency", _WORKERS, "--log-level", "warning"]


def make_door(state: Path, wanted_port: int | None, proxy: ServiceProxy) -> Door | None:
    """Return the door of a machine; None: there is no Envoy for this platform. PortTaken: see `choose_port`."""
    envoy = envoy_program()
    return Door(envoy, state, choose_port(state, wanted_port), proxy) if envoy else None
