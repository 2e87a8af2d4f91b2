"""The cluster of the user: the place that flags and environment name, and a client with the user's own rights."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from modelyard.cluster.failures import explained, is_undefined, no_definition, no_object
from modelyard.home import at_home
from modelyard.kube import config
from modelyard.kube.client import Client
from modelyard.kube.errors import NotFound
from modelyard.kube.transport import HttpTransport, Transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Key, Resource
    from modelyard.kube.connection import Connection

T = TypeVar("T")
R = TypeVar("R")


class Place(Struct, frozen=True):
    """Which cluster and namespace a command line means, by the flags of kubectl."""

    kubeconfig: Path | None = None
    """None: what KUBECONFIG names, or else the usual file."""
    context: str = ""
    namespace: str = ""
    """Empty: that of the context."""

    @property
    def flags(self) -> str:
        """What a command for the same cluster ends with, such as ` --context=prod`; empty: it finds it without."""
        named = (("kubeconfig", self.kubeconfig), ("context", self.context))
        return "".join(f" --{flag}={shlex.quote(str(value))}" for flag, value in named if value)


class Session(Struct, frozen=True):
    """A client of the user's cluster, and the namespace that is meant when none is named."""

    client: Client
    namespace: str
    transport: Transport

    async def get(self, resource: Resource, key: Key) -> Stored:
        """Return one object; NothingFound or NoDefinition: there is none."""
        try:
            return await self.client.get(resource, key)
        except NotFound as error:
            raise no_definition(resource) if is_undefined(error) else no_object(resource, key) from error


@asynccontextmanager
async def connected(place: Place, environ: Mapping[str, str]) -> AsyncIterator[Session]:
    """Yield a session with the cluster of a place. Errors of the block are explained."""
    with explained():
        found = connection(place, environ)
        transport = HttpTransport(found)
        try:
            yield Session(Client(transport), place.namespace or found.namespace, transport)
        finally:
            await transport.close()


def connection(place: Place, environ: Mapping[str, str]) -> Connection:
    """Return the connection to the cluster of a place, for these environment variables."""
    if place.kubeconfig:
        return config.from_kubeconfig([at_home(place.kubeconfig)], place.context)
    return config.find(environ, place.context)


async def for_each(call: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Return the results of a call for each item, made side by side; the first failure cancels the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(call(item))) for item in items]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def _awaited(result: Awaitable[R]) -> R:
    return await result
