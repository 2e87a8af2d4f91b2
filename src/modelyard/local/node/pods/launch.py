"""Turn a container of a pod spec into a command line of this machine: program, arguments, variables and folder.

`pod_worker` makes one `Launcher` per pod, and each container asks it before every start, because Secrets, Services and
installed programs may have changed. Its counterpart is the kubelet's `generateContainerConfig`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.core.resources import SERVICE, Key
from modelyard.kube.errors import NotFound
from modelyard.local.node.pods.config_sources import ConfigMissing, ConfigSources
from modelyard.local.node.pods.downward_api import gpu_count, memory_limit
from modelyard.local.node.pods.environment import Env, environment, expand, past_proxies
from modelyard.local.node.pods.gpus import NVIDIA
from modelyard.local.node.pods.probes import ContainerAccess, Localize
from modelyard.local.node.podspec import Container
from modelyard.local.node.process.images import NoProgram, listening, listening_env
from modelyard.local.node.process.own_address import with_own_address
from modelyard.local.node.process.path_mapping import Mapped, Paths
from modelyard.local.node.process.podman import PodmanOptions, enter_command, remove_command, run_command
from modelyard.local.node.process.process import Launch
from modelyard.local.node.process.reaper import CONTAINER_MARK
from modelyard.local.node.proxy.routes import NO_ADDRESS
from modelyard.local.node.proxy.service_dns import resolve_names, unknown_services
from modelyard.local.node.storage.pod_folders import ContainerFolder

if TYPE_CHECKING:
    from modelyard.local.node.pods.downward_api import PodContext
    from modelyard.local.node.pods.node_context import NodeContext
    from modelyard.local.node.pods.volumes import Volumes
    from modelyard.local.node.podspec import Mount
    from modelyard.local.node.proxy.addresses import PodAddress

TERMINATION_LOG: Final = "TERMINATION_LOG"
"""The variable that names the file for the termination message: the path in the pod spec is not one of this machine."""

_API: Final = Key("default", "kubernetes")
_API_PORT: Final = 443
_SERVICE_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


class NoGpus(ModelyardError):
    """Too few GPUs are free for a container. Retried by the worker."""


class Prepared(Struct, frozen=True):
    """A container that can be started, and how probes and `exec` reach it then."""

    launch: Launch
    access: ContainerAccess


class _ContainerConfig(Struct, frozen=True):
    """A container with everything resolved that does not depend on whether a process or podman runs it."""

    container: Container
    folder: ContainerFolder
    env: Env
    command: tuple[str, ...]
    args: tuple[str, ...]
    mapped: tuple[Mapped, ...]
    gpus: tuple[str, ...]


class Launcher:
    """What the containers of one pod need to be started."""

    def __init__(self, context: NodeContext, pod: PodContext, address: PodAddress, volumes: Volumes) -> None:
        self._context, self._pod, self._address, self._volumes = context, pod, address, volumes

    async def prepare(self, container: Container, folder: ContainerFolder) -> Prepared:
        """Return how a container is started now; a `ModelyardError` says what is missing."""
        given, sources = self._api(), ConfigSources(self._context.client, self._pod.meta.namespace)
        env = await environment(container, self._pod, sources, given)
        known = {**given, **env}
        config = _ContainerConfig(
            container=container,
            folder=folder,
            env=env,
            command=tuple(expand(word, known) for word in container.command),
            args=tuple(expand(word, known) for word in container.args),
            mapped=self._mapped(container, folder, env),
            gpus=self._gpus(container),
        )
        await self._await_services((*config.command, *config.args, *config.env.values()))
        return self._as_process(config) or await self._as_podman(config)

    async def _await_services(self, texts: tuple[str, ...]) -> None:
        """Wait until the Services that a container names, and that there are, have an address here.

        The news of a pod may be here before that of a Service which is older. On a cluster the container would look the
        name up again; here it would have none for as long as it runs.
        """
        missing = {key for text in texts for key in self._unknown_services(text)}
        with suppress(TimeoutError):
            async with asyncio.timeout(_SERVICE_SECONDS):
                for key in missing:
                    while await self._is_on_its_way(key):  # noqa: ASYNC110 - the proxy may not hear of it at all
                        await asyncio.sleep(_POLL_SECONDS)

    def _unknown_services(self, text: str) -> set[Key]:
        return unknown_services(text, self._context.service_addresses(), self._pod.meta.namespace)

    async def _is_on_its_way(self, service: Key) -> bool:
        if service in self._context.service_addresses():
            return False
        try:
            found = await self._context.client.get(SERVICE, service)
        except NotFound:
            return False
        return found.spec.get("clusterIP", "") not in NO_ADDRESS

    def _as_process(self, config: _ContainerConfig) -> Prepared | None:
        """Return how a program of this machine runs in place of the image; None: no rule names one."""
        paths, address, folder = Paths(config.mapped), self._address, config.folder

        def localize(text: str) -> str:
            resolved = resolve_names(paths.local(text), self._context.service_addresses(), self._pod.meta.namespace)
            return with_own_address(resolved, address.ip)

        resolved = self._context.images.resolve(config.container.image, tuple(map(localize, config.command)))
        if resolved is None:
            return None
        words = (*resolved.rest, *map(localize, config.args))
        # A pod with an address of its own may use any port, and uses the one that its spec says.
        port = address.port or next((each.container_port for each in config.container.ports), None)
        args = listening(resolved.rule, words, address.ip, port)
        mark = f"{self._pod.meta.uid}/{config.container.name}"
        temporary = paths.outside("/tmp")  # noqa: S108 - a path of the container, not of this machine
        env = {
            **self._context.env,
            **past_proxies(self._context.env, self._hosts()),
            **self._api(),
            "HOSTNAME": self._pod.spec.hostname or self._pod.meta.name,
            TERMINATION_LOG: str(folder.termination),
            CONTAINER_MARK: mark,
            **({"TMPDIR": temporary} if temporary else {}),
            **({"CUDA_VISIBLE_DEVICES": ",".join(config.gpus)} if self._context.gpus.any else {}),
            **{name: localize(value) for name, value in config.env.items()},
            **listening_env(resolved.rule, address.ip, port),
        }
        where = paths.outside(config.container.working_dir) or str(folder.work)
        limit = memory_limit(config.container)
        launch = Launch((*resolved.program, *args), env, where, limit, mark=f"{CONTAINER_MARK}={mark}")
        return Prepared(launch, self._access(config.container, launch, localize))

    async def _as_podman(self, config: _ContainerConfig) -> Prepared:
        """Return how podman or docker runs the image itself; NoProgram when neither works here."""
        program, container = await self._context.podman.program(), config.container
        if program is None:
            raise NoProgram(
                f"no program for image {container.image} on this machine: {self._context.podman.remedy()}, "
                "or add a rule for the image to the file that --images names"
            )
        name = f"modelyard-{self._pod.meta.uid}-{container.name}"
        memory = memory_limit(container)
        options = PodmanOptions(name, self._address, config.command, config.args, config.mapped, config.gpus, memory)
        argv, env = run_command(program, container, options, config.env), {**self._context.env, **config.env}
        launch = Launch(argv, env, str(config.folder.work), remove=remove_command(program, name))
        access = self._access(container, launch, str)
        enter = partial(enter_command, program, name)
        return Prepared(launch, msgspec.structs.replace(access, enter=enter))

    def _api(self) -> Env:
        """Return the variables by which client libraries in a pod find the API server; empty: it is not reached yet."""
        api = self._context.service_addresses().get(_API, {}).get(_API_PORT)
        return {"KUBERNETES_SERVICE_HOST": api.host, "KUBERNETES_SERVICE_PORT": str(api.port)} if api else {}

    def _hosts(self) -> set[str]:
        return {place.host for ports in self._context.service_addresses().values() for place in ports.values()}

    def _access(self, container: Container, launch: Launch, localize: Localize) -> ContainerAccess:
        address, session = self._address, self._context.session
        patience = self._context.timings.starting
        return ContainerAccess(
            session, address.ip, address.port, container.ports, launch.env, launch.folder, localize, patience
        )

    def _gpus(self, container: Container) -> tuple[str, ...]:
        count = gpu_count(container, NVIDIA)
        if not count:
            return ()
        gpus = self._context.gpus.take(self._pod.meta.uid, container.name, count)
        if gpus is None:
            raise NoGpus(f"{count} GPUs are wanted and fewer are free; wait for other pods to end")
        return gpus

    def _mapped(self, container: Container, folder: ContainerFolder, env: Env) -> tuple[Mapped, ...]:
        termination = Mapped(container.termination_message_path, str(folder.termination))
        return (termination, *(self._mount(mount, env) for mount in container.volume_mounts))

    def _mount(self, mount: Mount, env: Env) -> Mapped:
        part = PurePosixPath(mount.sub_path or expand(mount.sub_path_expr, env))
        if part.is_absolute() or ".." in part.parts:
            raise ConfigMissing(f"subPathExpr of the mount {mount.mount_path} leads out of its volume")
        real = self._volumes.path(mount.name) / part
        # Only a part of a volume: a folder in the place of a missing hostPath file would keep it from coming back.
        if part.parts and not real.exists():
            real.mkdir(mode=0o700, parents=True)
        return Mapped(mount.mount_path, str(real))
