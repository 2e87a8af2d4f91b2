"""`modelyard up` under test: a real process in a folder of its own, and what is left of it afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

from modelyard.core.resources import DEPLOYMENT, POD
from modelyard.kinds import ALL
from modelyard.local.raw_client import RawClient, RawClientError
from modelyard.local.up.state_folder import StateFolder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

DATA = Path(__file__).parents[1] / "data"
SECONDS = 120.0
COMMAND = (sys.executable, "-m", "modelyard")
_RESOURCES = {one.kind.lower(): one for one in (POD, DEPLOYMENT, *(kind.resource for kind in ALL))}
NAMED = {"yard": "I am Yard, ", "yard-green": "I am Yard Green, "}

Json = dict[str, Any]


def model(name: str) -> Json:
    """One of our two small models, as a file of this machine."""
    spec = {"source": f"file://{DATA / f'{name}.gguf'}", "format": "gguf"}
    return {
        "apiVersion": "inference.llmkube.dev/v1alpha1",
        "kind": "Model",
        "metadata": {"name": name},
        "spec": spec,
    }


def service(name: str, of: str | None = None, **spec: Any) -> Json:
    """A service that answers with a model."""
    return {
        "apiVersion": "inference.llmkube.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        # Servers that all use all cores are in each other's way.
        "spec": {"modelRef": of or name, "extraArgs": ["--threads", "1"], **spec},
    }


def zerfoo(name: str, **spec: Any) -> Json:
    """A service of the kind that has canaries."""
    check = {"path": "/healthz", "interval": "1s", "timeout": "1s"}
    return {
        "apiVersion": "modelyard.dev/v1alpha1",
        "kind": "ZerfooInferenceService",
        "metadata": {"name": name},
        "spec": {"modelRef": "old", "replicas": 1, "healthCheck": check, **spec},
    }


def manifest(file: Path, *objects: Json) -> Path:
    file.write_text(yaml.safe_dump_all(objects))
    return file


async def command(*args: str | Path, stdin: str = "", **env: str) -> tuple[int, str, str]:
    """Run `modelyard` to its end; return its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *map(str, args),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )
    return await _ended(process, stdin, f"modelyard {' '.join(map(str, args))}")


async def _ended(process: asyncio.subprocess.Process, stdin: str, words: str) -> tuple[int, str, str]:
    """Wait for the end of a process; return its exit code and what it said."""
    try:
        async with asyncio.timeout(SECONDS):
            output, complaint = await process.communicate(stdin.encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise AssertionError(f"{words} does not end") from None
    assert process.returncode is not None
    return process.returncode, output.decode(), complaint.decode()


@asynccontextmanager
async def in_time(tell: Callable[[], str], seconds: float = SECONDS) -> AsyncIterator[None]:
    """Fail with what was seen last when the block takes longer than it may."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise AssertionError(f"after {seconds:.0f} s: {tell()}") from None


class Yard:
    """One state folder, and the `modelyard up` that runs in it."""

    def __init__(self, path: Path, command: tuple[str, ...] = COMMAND) -> None:
        self.folder = StateFolder(path)
        self._command = command
        self.path = path
        self.output = path.with_name(f"{path.name}.txt")
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    async def start(self, *args: str | Path) -> str:
        """Start it, wait until all is settled, and return what it has printed."""
        await self.begin(*args)
        return await self.until_settled()

    async def begin(self, *args: str | Path, **env: str) -> None:
        words = (*self._command, "up", f"--dir={self.path}", *map(str, args))
        with self.output.open("wb") as output:
            self._process = await asyncio.create_subprocess_exec(
                *words, stdout=output, stderr=output, env={**os.environ, **env}
            )

    async def until_settled(self) -> str:
        assert self._process
        async with in_time(lambda: f"it is not settled, but says: {self.output.read_text()}"):
            while True:
                record = self.folder.read_record()
                if record and record.pid == self._process.pid and record.settled:
                    return self.output.read_text()
                assert self._process.returncode is None, self.output.read_text()
                await asyncio.sleep(0.05)

    async def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        """Ask it to stop, as Ctrl-C does; return its exit code."""
        assert self._process
        if self._process.returncode is None:
            self._process.send_signal(how)
        return await self.ended()

    async def ended(self) -> int:
        """Wait until it has stopped, and return its exit code."""
        assert self._process
        async with in_time(lambda: f"it does not stop, but says: {self.output.read_text()}"):
            return await self._process.wait()

    async def kubectl(self, *args: str, stdin: str = "", **env: str) -> str:
        code, output, complaint = await self.try_kubectl(*args, stdin=stdin, **env)
        assert code == 0, f"kubectl {' '.join(args)}: {complaint}"
        return output

    async def try_kubectl(self, *args: str, stdin: str = "", **env: str) -> tuple[int, str, str]:
        return await _ended(await self.kubectl_process(*args, **env), stdin, f"kubectl {' '.join(args)}")

    async def kubectl_process(self, *args: str, **env: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            f"{await self._programs()}/kubectl",
            *args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "KUBECONFIG": str(self.folder.kubeconfig), **env},
        )

    async def _programs(self) -> str:
        """Wait until it tells where its programs are, a moment after all of them run."""
        async with in_time(lambda: f"it does not run, but says: {self.output.read_text()}"):
            while not ((record := self.folder.read_record()) and record.assets):
                await asyncio.sleep(0.05)
        return record.assets

    async def apply(self, *objects: Json) -> None:
        await self.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))

    async def until_ready(self, *names: str) -> None:
        """Wait until services are ready, in their present generation."""
        for name in names:
            await self.until(is_ready, "inferenceservice", name)

    async def until(self, holds: Callable[[Json], Any], kind: str, name: str, seconds: float = SECONDS) -> Json:
        """Wait until something holds of an object, and return it. To ask `kubectl` again and again takes a core."""
        body: Json = {}
        admin, path = RawClient(self.folder.kubeconfig), _RESOURCES[kind].path("default", name)
        try:
            async with in_time(lambda: f"{kind} {name} stays {json.dumps(body.get('status'), indent=1)}", seconds):
                while not (body and _holds(holds, body)):
                    await asyncio.sleep(0.1)
                    with suppress(RawClientError):
                        body = await admin.get(path)
        finally:
            await admin.close()
        return body

    async def url(self, name: str, port: int = 8080) -> str:
        spec = json.loads(await self.kubectl("get", "service", name, "-o", "json"))["spec"]
        return f"http://{spec['clusterIP']}:{port}/v1/chat/completions"

    async def ask(self, name: str, question: str = "Which model are you?") -> str:
        """Ask a service at its own address."""
        return await ask(await self.url(name), question)

    async def answer(self, name: str) -> str:
        """Ask a service until it answers: who is ready is not reached before Kubernetes has told everybody."""
        return await _until_answered(lambda: self.ask(name))

    async def answer_as(self, name: str, url: str, **more: Any) -> None:
        """Ask at an address until one of our models answers: the last pod of another one leaves a moment later."""

        async def named() -> str:
            said = await ask(url, "Which model are you?", **more)
            assert said.startswith(NAMED[name]), said
            return said

        await _until_answered(named)

    async def answer_at_door(self, model: str) -> str:
        """Ask for a model at the one address for all models until it answers."""
        return await _until_answered(lambda: ask(f"{self.door}/chat/completions", "Which model are you?", model=model))

    @property
    def door(self) -> str:
        """The one address for all models, as it was printed."""
        line = next(line for line in self.output.read_text().splitlines() if "export OPENAI_BASE_URL=" in line)
        return line.split()[1].removeprefix("OPENAI_BASE_URL=")

    async def until_said(self, words: str) -> None:
        """Wait until it has printed this."""
        assert self._process
        async with in_time(lambda: f"it never said {words!r}, but: {self.output.read_text()}"):
            while words not in self.output.read_text():
                assert self._process.returncode is None, self.output.read_text()
                await asyncio.sleep(0.01)

    async def pods(self, name: str) -> list[Json]:
        found: list[Json] = json.loads(await self.kubectl("get", "pods", "-l", f"app={name}", "-o", "json"))["items"]
        return found

    def processes(self) -> dict[int, str]:
        """Return every process that was started because of the folder."""
        signs = (f"{self.path}/", f" {self.path} ", f"--dir={self.path}", f"MODELYARD_NODE={self.path}")
        found = {pid: each for pid, each in all_processes().items() if any(sign in each for sign in signs)}
        # The `kubectl` of a test is not ours; it has the administrator's kubeconfig in its environment.
        return {pid: words for pid, words in found.items() if "/kubectl " not in words}

    async def until_nothing_runs(self) -> None:
        left: dict[int, str] = {}
        async with in_time(lambda: f"still there: {left}"):
            while left := self.processes():
                await asyncio.sleep(0.2)


async def _until_answered(asking: Callable[[], Awaitable[str]]) -> str:
    last = ""
    async with in_time(lambda: f"no answer, but: {last}"):
        while True:
            try:
                return await asking()
            except (OSError, aiohttp.ClientError, AssertionError) as error:
                last = repr(error)
                await asyncio.sleep(0.1)


def _holds(holds: Callable[[Json], Any], body: Json) -> bool:
    """Whether something holds of an object; of fields that it does not have yet, nothing does."""
    try:
        return bool(holds(body))
    except (KeyError, IndexError):
        return False


def is_ready(body: Json) -> bool:
    """Whether an object is ready, in its present generation."""
    status = body.get("status", {})
    ready = [one for one in status.get("conditions", ()) if one["type"] == "Ready"]
    return (
        bool(ready) and ready[0]["status"] == "True" and status["observedGeneration"] == body["metadata"]["generation"]
    )


def condition(body: Json, kind: str = "Ready") -> Json:
    found = [one for one in body.get("status", {}).get("conditions", ()) if one["type"] == kind]
    return found[0] if found else {}


async def ask(url: str, question: str, **more: Any) -> str:
    body = {"messages": [{"role": "user", "content": question}], "temperature": 0, **more}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        async with session.post(url, json=body) as answer:
            assert answer.status == 200, await answer.text()
            said = await answer.json()
    return str(said["choices"][0]["message"]["content"])


async def send_printed(text: str) -> str:
    """Send what the printed `curl` line would send, and return what is answered."""
    line = next(line for line in text.splitlines() if line.strip().startswith("curl "))
    words = shlex.split(line)
    url = next(word for word in words if word.startswith("http"))
    data = words[words.index("-d") + 1]
    async with aiohttp.ClientSession(headers=dict([words[words.index("-H") + 1].split(": ")])) as session:
        async with session.post(url, data=data) as answer:
            return str((await answer.json())["choices"][0]["message"]["content"])


def all_processes() -> dict[int, str]:
    """Return the command line and the environment of every process of this machine that we may look at."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes() + b"\0" + (folder / "environ").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and int(folder.name) != os.getpid():
            found[int(folder.name)] = words.replace(b"\0", b" ").decode(errors="replace")
    return found


@asynccontextmanager
async def running_yard(path: Path, *args: str | Path) -> AsyncIterator[Yard]:
    """Run `modelyard up` for as long as the block lasts; afterwards nothing of it may be left."""
    yard = Yard(path)
    try:
        await yard.start(*args)
        yield yard
    finally:
        code = await yard.stop()
    assert code == 0, f"it ended with {code}: {yard.output.read_text()}"
    assert "Traceback" not in yard.output.read_text()
    await yard.until_nothing_runs()
