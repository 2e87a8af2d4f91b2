"""A real Kubernetes control plane on this machine: etcd, API server and, on demand, controllers and scheduler.

`cluster` and `up.machine` run one. It belongs to one folder and to the process that started it: it ends with that
process, `kill -9` included, and a second start in the same folder goes on with the same objects, certificate authority
and ports. It has no nodes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from modelyard.core.errors import ModelyardError
from modelyard.local import command_lines
from modelyard.local.files import file_name, private_folder, tail, write_private
from modelyard.local.first_start import begin_database, database_answered
from modelyard.local.kubeconfig import by_certificate, by_token, write_kubeconfig
from modelyard.local.pki import Authority, signing_key
from modelyard.local.ports import keep_ports
from modelyard.local.program import ProcessDied, Program
from modelyard.local.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_TOKEN_SECONDS = 24 * 3600
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", command_lines.FIRST_SERVICE_IP)
# What the API server logs when etcd runs and never answers, as with a truncated journal.
_NO_STORAGE = "error creating storage factory"
_DEFAULT_NAMESPACE = "/api/v1/namespaces/default"
_DEFAULT_ACCOUNT = f"{_DEFAULT_NAMESPACE}/serviceaccounts/default"


class NotReady(ModelyardError):
    """A program runs, but did not become ready in time."""


class NoDatabase(ModelyardError):
    """The database in the folder cannot be read."""


class ControlPlane:
    """The control plane of one folder.

    `workloads` adds the controllers and the scheduler; without them only the API answers. Without `durable` a power
    cut may lose data, and everything is faster: meant for tests and benchmarks.
    """

    def __init__(
        self,
        folder: Path,
        assets: Path,
        *,
        workloads: bool = True,
        durable: bool = True,
        apiserver_flags: tuple[str, ...] = (),
    ) -> None:
        self.folder = private_folder(folder.resolve())
        self.assets = assets.resolve()
        self._logs = private_folder(self.folder / "logs")
        self._kubeconfigs = private_folder(self.folder / "kubeconfigs")
        self._ports = keep_ports(self.folder / "ports.json", ("apiserver", "etcd", "etcd-http", "etcd-peer"))
        self._authority = Authority.open(self.folder / "pki", "modelyard")
        # One of its own: with a certificate of it, a client may act as any user of the API.
        self._front_proxy = Authority.open(self.folder / "pki" / "front-proxy", command_lines.FRONT_PROXY)
        self._signing_key = signing_key(self.folder / "pki" / "service-accounts.key")
        self.url = f"https://127.0.0.1:{self._ports['apiserver']}"
        self.kubeconfig = self.client_kubeconfig("admin", ("system:masters",))
        self.admin = RawClient(self.kubeconfig)
        self._data = private_folder(self.folder / "etcd")
        self._etcd = self._etcd_program(durable=durable)
        self._apiserver = self._apiserver_program(apiserver_flags)
        self._workers = [self._controllers_program(), self._scheduler_program()] if workloads else []

    @property
    def ca(self) -> Path:
        """The file of the certificate authority that clients of the API server must trust."""
        return self._authority.certificate_file

    @property
    def audit_log(self) -> Path:
        """The audit log: every write that the API server has answered, one JSON document per line."""
        return self._logs / "audit.log"

    @property
    def kubectl(self) -> Path:
        """The `kubectl` of the same version as the API server."""
        return self.assets / "kubectl"

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the programs that run now, by name."""
        return {program.name: program.pid for program in self.programs if program.pid is not None}

    async def start(self, prepare: Callable[[], Awaitable[None]] | None = None) -> None:
        """Start all programs and return when the API accepts pods; on an error stop all of them, and raise it.

        `prepare` runs when the API answers, before the controllers start. CRDs that it applies are known to garbage
        collection at once; that of later ones begins only half a minute after them.
        """
        try:
            begin_database(self._data)
            await self._etcd.start()
            await self._start_apiserver()
            database_answered(self._data)
            if prepare:
                await prepare()
            for worker in self._workers:
                await worker.start()
            if self._workers:
                await self._until(_DEFAULT_ACCOUNT)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all programs, each before those that it needs."""
        await self.admin.close()
        async with asyncio.TaskGroup() as group:
            for worker in self._workers:
                group.create_task(worker.stop())
        await self._apiserver.stop()
        await self._etcd.stop()

    async def restart_apiserver(self) -> None:
        """Stop the API server, if it runs, and start it on the same port. For tests of restarts."""
        await self._apiserver.stop()
        await self._start_apiserver()

    async def kill_apiserver(self) -> None:
        """Kill the API server. For tests of crashes."""
        await self._apiserver.kill()

    def client_kubeconfig(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """Write a kubeconfig with a client certificate for a user of these groups, and return its file."""
        user_entry = by_certificate(self._authority.client(user, groups))
        return self._kubeconfig(file_name(user, *groups), user_entry)

    async def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a token of a service account, valid for a day, and return its file."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = await self.admin.create(path, {"spec": {"expirationSeconds": _TOKEN_SECONDS}})
        return self._kubeconfig(file_name(namespace, name), by_token(answer["status"]["token"]), namespace)

    def node_trust(self) -> command_lines.Trust:
        """Return the certificate of the kubelet's server on this machine, and the authority of its clients."""
        return command_lines.Trust(self.ca, self._authority.store("node", self._authority.server("node", _LOOPBACK)))

    def extension_trust(self, host: str) -> command_lines.Trust:
        """Return the certificate of a server of a further API, and the authority of the API server as its client.

        `host` is the name of its Service, which the API server expects in the certificate.
        """
        identity = self._authority.store(host, self._authority.server(host, (host,)))
        return command_lines.Trust(self._front_proxy.certificate_file, identity)

    @property
    def programs(self) -> list[Program]:
        """The programs of the control plane, each after those that it needs."""
        return [self._etcd, self._apiserver, *self._workers]

    async def _start_apiserver(self) -> None:
        await self._apiserver.start()
        await self._until("/readyz")
        await self._until(_DEFAULT_NAMESPACE)

    async def _until(self, path: str) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await self.admin.answers(path):
                    self._check()
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            log = self._apiserver.log
            raise NotReady(f"{path} did not answer within {_START_SECONDS:.0f} s; {log} ends:\n{tail(log)}") from None

    def _check(self) -> None:
        try:
            for program in self.programs:
                program.check()
        except ProcessDied as died:
            if died.name != self._apiserver.name or _NO_STORAGE not in str(died):
                raise
            raise NoDatabase(
                f"the database in {self._data} does not answer; start again, and if that does not help it is "
                f"damaged ({self._etcd.log} may say how): remove {self.folder}, and apply your manifests again"
            ) from None

    def _kubeconfig(self, stem: str, user: dict[str, str], namespace: str = "default") -> Path:
        return write_kubeconfig(self._kubeconfigs / f"{stem}.yaml", self.url, self.ca.read_bytes(), user, namespace)

    def _program(self, command: list[str]) -> Program:
        name = command[0].rpartition("/")[2]
        return Program(command, log=self._logs / f"{name}.log")

    def _etcd_program(self, *, durable: bool) -> Program:
        ports = command_lines.EtcdPorts(*(self._ports[name] for name in ("etcd", "etcd-http", "etcd-peer")))
        command = command_lines.etcd(self.assets / "etcd", self._data, ports, self._etcd_trust(), durable=durable)
        return self._program(command)

    def _etcd_trust(self) -> command_lines.Trust:
        # An authority of its own: by that of the API, every user with a client certificate could open the database.
        authority = Authority.open(self.folder / "pki" / "etcd", "modelyard-etcd")
        return command_lines.Trust(
            authority.certificate_file, authority.store("etcd", authority.server("etcd", _LOOPBACK))
        )

    def _apiserver_program(self, extra: tuple[str, ...]) -> Program:
        identity = self._authority.store("apiserver", self._authority.server("apiserver", (*_LOOPBACK, *_NAMES)))
        caller = self._authority.store(command_lines.NODE_CALLER, self._authority.client(command_lines.NODE_CALLER))
        server = command_lines.ApiServer(
            program=self.assets / "kube-apiserver",
            port=self._ports["apiserver"],
            trust=command_lines.Trust(self.ca, identity),
            etcd_port=self._ports["etcd"],
            etcd_trust=self._etcd_trust(),
            signing_key=self._signing_key,
            kubelet_trust=command_lines.Trust(self.ca, caller),
            front_proxy=self._front_proxy_trust(),
            audit_policy=write_private(self.folder / "audit-policy.yaml", command_lines.AUDIT_POLICY.encode()),
            audit_log=self.audit_log,
            extra=extra,
        )
        return self._program(server.command())

    def _front_proxy_trust(self) -> command_lines.Trust:
        authority, name = self._front_proxy, command_lines.FRONT_PROXY
        return command_lines.Trust(authority.certificate_file, authority.store(name, authority.client(name)))

    def _controllers_program(self) -> Program:
        kubeconfig = self.client_kubeconfig("system:kube-controller-manager")
        program = self.assets / "kube-controller-manager"
        return self._program(command_lines.controller_manager(program, kubeconfig, self.ca, self._signing_key))

    def _scheduler_program(self) -> Program:
        kubeconfig = self.client_kubeconfig("system:kube-scheduler")
        return self._program(command_lines.scheduler(self.assets / "kube-scheduler", kubeconfig))
