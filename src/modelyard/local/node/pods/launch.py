"""From a container to a process: program, arguments, variables and folder, as they are on this machine."""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.core.resources import Key
from modelyard.local.node.pods.config_sources import ConfigMissing, Sources
from modelyard.local.node.pods.downward_api import gpu_count, memory_limit
from modelyard.local.node.pods.environment import Env, environment, expand, past_proxies
from modelyard.local.node.pods.gpus import NVIDIA
from modelyard.local.node.pods.podspec import Container
from modelyard.local.node.pods.probes import Asked, Localize
from modelyard.local.node.process.images import NoProgram, listening, listening_env
from modelyard.local.node.process.path_mapping import Mapped, Paths
from modelyard.local.node.process.podman import Box, enter_command, remove_command, run_command
from modelyard.local.node.process.process import Launch
from modelyard.local.node.process.reaper import CONTAINER_MARK
from modelyard.local.node.proxy.service_dns import local_names
from modelyard.local.node.storage.pod_folders import ContainerFolder

if TYPE_CHECKING:
    from modelyard.local.node.pods.downward_api import Self
    from modelyard.local.node.pods.node_context import Site
    from modelyard.local.node.pods.podspec import Mount
    from modelyard.local.node.pods.volumes import Volumes
    from modelyard.local.node.proxy.addresses import Address

TERMINATION_LOG: Final = "TERMINATION_LOG"
"""The variable that tells a process where to leave its termination message."""

_API: Final = Key("default", "kubernetes")
_API_PORT: Final = 443


class NoGpus(ModelyardError):
    """All GPUs are in use."""


class Prepared(Struct, frozen=True):
    """A container that can be started, and how to reach it then."""

    launch: Launch
    asked: Asked


class _Wanted(Struct, frozen=True):
    """A container, with everything resolved that does not depend on what runs it."""

    container: Container
    folder: ContainerFolder
    env: Env
    command: tuple[str, ...]
    args: tuple[str, ...]
    mapped: tuple[Mapped, ...]
    gpus: tuple[str, ...]


class Preparing:
    """What a pod knows that its containers need."""

    def __init__(self, site: Site, pod: Self, address: Address, volumes: Volumes) -> None:
        self._site, self._pod, self._address, self._volumes = site, pod, address, volumes

    async def prepare(self, container: Container, folder: ContainerFolder) -> Prepared:
        """Return how a container is started now; an error of ours when it cannot be started yet."""
        given, sources = self._api(), Sources(self._site.client, self._pod.meta.namespace)
        env = await environment(container, self._pod, sources, given)
        known = {**given, **env}
        wanted = _Wanted(
            container=container,
            folder=folder,
            env=env,
            command=tuple(expand(word, known) for word in container.command),
            args=tuple(expand(word, known) for word in container.args),
            mapped=self._mapped(container, folder, env),
            gpus=self._gpus(container),
        )
        return self._process(wanted) or await self._boxed(wanted)

    def _process(self, wanted: _Wanted) -> Prepared | None:
        """Return the process of a program of this machine that stands in for the image; None: none does."""
        paths, address, folder = Paths(wanted.mapped), self._address, wanted.folder

        def localize(text: str) -> str:
            return local_names(paths.local(text), self._site.places(), self._pod.meta.namespace)

        resolved = self._site.images.resolve(wanted.container.image, tuple(map(localize, wanted.command)))
        if resolved is None:
            return None
        words = (*resolved.rest, *map(localize, wanted.args))
        args = listening(resolved.rule, words, address.ip, address.port)
        mark = f"{self._pod.meta.uid}/{wanted.container.name}"
        temporary = paths.outside("/tmp")  # noqa: S108 - a path of the container, not of this machine
        env = {
            **self._site.env,
            **past_proxies(self._site.env, self._hosts()),
            **self._api(),
            "HOSTNAME": self._pod.meta.name,
            TERMINATION_LOG: str(folder.termination),
            CONTAINER_MARK: mark,
            **({"TMPDIR": temporary} if temporary else {}),
            **({"CUDA_VISIBLE_DEVICES": ",".join(wanted.gpus)} if self._site.gpus.any else {}),
            **{name: localize(value) for name, value in wanted.env.items()},
            **listening_env(resolved.rule, address.ip, address.port),
        }
        where = paths.outside(wanted.container.working_dir) or str(folder.work)
        limit = memory_limit(wanted.container)
        launch = Launch((*resolved.program, *args), env, where, limit, mark=f"{CONTAINER_MARK}={mark}")
        return Prepared(launch, self._asked(wanted.container, launch, localize))

    async def _boxed(self, wanted: _Wanted) -> Prepared:
        """Return the process of podman or docker that runs the image itself."""
        program, container = await self._site.podman.program(), wanted.container
        if program is None:
            raise NoProgram(
                f"no program for image {container.image} on this machine: install podman or docker, "
                "or add a rule for the image to the file that --images names"
            )
        name = f"modelyard-{self._pod.meta.uid}-{container.name}"
        memory = memory_limit(container)
        box = Box(name, self._address, wanted.command, wanted.args, wanted.mapped, wanted.gpus, memory)
        argv, env = run_command(program, container, box, wanted.env), {**self._site.env, **wanted.env}
        launch = Launch(argv, env, str(wanted.folder.work), remove=remove_command(program, name))
        asked = self._asked(container, launch, str)
        enter = partial(enter_command, program, name)
        return Prepared(launch, msgspec.structs.replace(asked, enter=enter))

    def _api(self) -> Env:
        """Return the variables by which the libraries of Kubernetes find the API server."""
        api = self._site.places().get(_API, {}).get(_API_PORT)
        return {"KUBERNETES_SERVICE_HOST": api.host, "KUBERNETES_SERVICE_PORT": str(api.port)} if api else {}

    def _hosts(self) -> set[str]:
        return {place.host for ports in self._site.places().values() for place in ports.values()}

    def _asked(self, container: Container, launch: Launch, localize: Localize) -> Asked:
        address, session = self._address, self._site.session
        return Asked(session, address.ip, address.port, container.ports, launch.env, launch.folder, localize)

    def _gpus(self, container: Container) -> tuple[str, ...]:
        count = gpu_count(container, NVIDIA)
        if not count:
            return ()
        gpus = self._site.gpus.take(self._pod.meta.uid, container.name, count)
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
        if not real.exists():
            real.mkdir(mode=0o700, parents=True)
        return Mapped(mount.mount_path, str(real))
