"""Credentials from an exec plugin of a kubeconfig: the API `client.authentication.k8s.io`, `v1` and `v1beta1`.

The command is run without a terminal and within a bounded time. Its output is never shown; of its standard error, the
beginning is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from modelyard.kube.credentials import Identity, Redacted
from modelyard.kube.errors import NoCredentials, quoted

API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

_TIME_LIMIT: Final = 30.0
_RENEW_BEFORE: Final = 10.0
_FOR_EVER: Final = float("inf")


class Variable(Redacted, frozen=True):
    """One environment variable for the command."""

    name: str
    value: str


class Command(Struct, frozen=True, rename="camel"):
    """The `exec` section of a kubeconfig user."""

    api_version: str
    command: str
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class _Issued(Redacted, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Credential(Redacted, frozen=True, rename="camel"):
    kind: str
    api_version: str
    status: _Issued


_CREDENTIAL: Final = msgspec.json.Decoder(_Credential)


class ExecPlugin(Struct, frozen=True):
    """A command that prints an ExecCredential. `cluster` is passed to it where `provideClusterInfo` is set."""

    command: Command
    cluster: dict[str, Any] | None = None
    time_limit: float = _TIME_LIMIT

    async def fetch(self) -> tuple[Identity, float]:
        """Run the command, and return the identity and for how many seconds it is good."""
        try:
            async with asyncio.timeout(self.time_limit):
                printed = await self._run()
        except TimeoutError as error:
            raise self._failure(f"did not finish within {self.time_limit:g} s") from error
        except OSError as error:
            raise self._failure(f"cannot be started: {error.strerror}") from error
        return self._understood(printed)

    async def _run(self) -> bytes:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            self.command.command,
            *(self.command.args or ()),
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
        try:
            printed, complaint = await process.communicate()
        finally:
            await _end(process)
        if process.returncode:
            said = quoted(complaint.decode(errors="replace").strip())
            raise self._failure(f"failed with exit code {process.returncode}: {said or 'it said nothing'}")
        return printed

    def _environment(self) -> dict[str, str]:
        given = {variable.name: variable.value for variable in self.command.env or ()}
        spec = {"interactive": False, **({"cluster": self.cluster} if self.cluster is not None else {})}
        question = {"apiVersion": self.command.api_version, "kind": "ExecCredential", "spec": spec}
        return {**os.environ, **given, "KUBERNETES_EXEC_INFO": msgspec.json.encode(question).decode()}

    def _understood(self, printed: bytes) -> tuple[Identity, float]:
        try:
            credential = _CREDENTIAL.decode(printed)
        except (msgspec.MsgspecError, ValueError) as error:
            raise self._failure("printed something that is not an ExecCredential") from error
        if credential.kind != "ExecCredential" or credential.api_version != self.command.api_version:
            raise self._failure(f"printed no ExecCredential of {self.command.api_version}")
        issued = credential.status
        if not issued.token and not (issued.client_certificate_data and issued.client_key_data):
            raise self._failure("printed neither a token nor a certificate with its key")
        certificate, key = issued.client_certificate_data.encode(), issued.client_key_data.encode()
        return Identity(issued.token, certificate, key), _lifetime(issued.expiration_timestamp)

    def _failure(self, wrong: str) -> NoCredentials:
        hint = f"; {self.command.install_hint.strip()}" if self.command.install_hint else ""
        return NoCredentials(f"the credential plugin {self.command.command!r} {wrong}{hint}")


def _lifetime(end: datetime | None) -> float:
    if end is None:
        return _FOR_EVER
    aware = end if end.tzinfo else end.replace(tzinfo=UTC)
    return (aware - datetime.now(UTC)).total_seconds() - _RENEW_BEFORE


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    # The whole session: such commands are often scripts that start others.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
