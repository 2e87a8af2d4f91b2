"""A walk over what users do to a machine, in any order.

After every step: what is Ready answers, what cannot is told with its cause, and `up` always starts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from random import Random
from typing import TYPE_CHECKING

import aiohttp
import pytest

from modelyard.core.errors import ModelyardError
from modelyard.local.up.query import query_rows
from tests.e2e.test_killed import PARTS, pid_of
from tests.e2e.yards import DATA, NAMED, Json, Yard, ask, manifest, model, service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from modelyard.local.up.rows import Row

SECONDS = 240.0
MOST = 3


class Walk:
    """One machine, the sources of its models, and what was done to it so far."""

    def __init__(self, home: Path, chance: Random) -> None:
        self.yard, self.chance = Yard(home / "state-0"), chance
        self.steps: list[str] = []
        self._home, self._made, self._moved = home, 0, 0
        self._replicas: dict[str, int] = {}
        self._doubtful: set[str] = set()
        """Services whose source was away at some time. They may be Ready or not, but must tell why."""
        self.actions: dict[str, Callable[[], Awaitable[None]]] = {
            "apply": self.apply,
            "edit": self.edit,
            "delete": self.delete,
            "break a source": self.break_source,
            "mend a source": self.mend_source,
            "kill a part": self.kill_part,
            "kill it": self.kill,
            "restart": self.restart,
            "move the folder": self.move,
        }

    async def begin(self) -> None:
        """Start with one service."""
        await self.yard.start("-f", manifest(self._home / "first.yaml", *self._new()))

    async def step(self, action: str) -> None:
        """Do one thing, and look whether all is as it must be."""
        self.steps.append(action)
        await self.actions[action]()
        await self._holds()

    def _new(self) -> tuple[Json, Json]:
        self._made += 1
        name = f"walk-{self._made}"
        shutil.copy(DATA / "yard.gguf", self._source(name))
        self._replicas[name] = 1
        weights = {**model("yard"), "metadata": {"name": name}, "spec": {"source": f"file://{self._source(name)}"}}
        return weights, service(name)

    def _source(self, name: str) -> Path:
        return self._home / f"{name}.gguf"

    def _any(self) -> str:
        return self.chance.choice(sorted(self._replicas))

    async def apply(self) -> None:
        if len(self._replicas) < MOST:
            await self.yard.apply(*self._new())

    async def edit(self) -> None:
        name = self._any()
        self._replicas[name] = self.chance.choice((0, 1))
        size = self.chance.choice(("256", "512"))
        await self.yard.apply(service(name, replicas=self._replicas[name], extraArgs=["--threads", "1", "-c", size]))

    async def delete(self) -> None:
        if len(self._replicas) > 1:
            name = self._any()
            del self._replicas[name]
            await self.yard.kubectl("delete", f"inferenceservice/{name}", f"model/{name}")

    async def break_source(self) -> None:
        name = self._any()
        self._doubtful.add(name)
        self._source(name).unlink(missing_ok=True)
        await self.yard.try_kubectl("rollout", "restart", f"deployment/{name}")

    async def mend_source(self) -> None:
        for name in self._replicas:
            shutil.copy(DATA / "yard.gguf", self._source(name))

    async def kill_part(self) -> None:
        part = self.chance.choice(sorted(PARTS))
        self.steps[-1] = f"kill {part}"
        if pid := pid_of(self.yard, part):
            os.kill(pid, signal.SIGKILL)

    async def kill(self) -> None:
        await self.yard.stop(signal.SIGKILL)
        await self.yard.start()

    async def restart(self) -> None:
        assert await self.yard.stop() == 0
        await self.yard.start()

    async def move(self) -> None:
        assert await self.yard.stop() == 0
        await self.yard.until_nothing_runs()
        self._moved += 1
        self.yard = Yard(self.yard.path.rename(self._home / f"state-{self._moved}"))
        await self.yard.start()

    async def _holds(self) -> None:
        """Wait until all objects are settled as they must be."""
        wrong = ["nothing was seen"]
        try:
            async with asyncio.timeout(SECONDS):
                while wrong := await self._wrong():
                    await asyncio.sleep(0.3)
        except TimeoutError:
            raise AssertionError(f"after {', '.join(self.steps)}: {'; '.join(wrong)}") from None

    async def _wrong(self) -> list[str]:
        try:
            rows = await query_rows(self.yard.folder)
        except (ModelyardError, OSError) as error:
            # The API server was killed, and is being started again.
            return [str(error)]
        services = {row.name: row for row in rows if row.kind == "InferenceService"}
        if services.keys() != self._replicas.keys():
            return [f"there are {sorted(services)} in place of {sorted(self._replicas)}"]
        said = [await self._complaint(name, row) for name, row in services.items()]
        models = [self._complaint_of_model(row) for row in rows if row.kind == "Model"]
        return [each for each in (*said, *models) if each]

    def _complaint_of_model(self, row: Row) -> str:
        if row.is_ready or row.name not in self._replicas:
            return ""
        if self._source(row.name).exists():
            return f"Model {row.name} has its file and is {row.phase}: {row.reason} {row.note}"
        return "" if row.is_settled and row.note else f"Model {row.name} does not say why it is {row.phase}"

    async def _complaint(self, name: str, row: Row) -> str:
        if row.is_ready:
            return "" if await answers(row.url) else f"{name} is Ready and does not answer"
        if row.is_as_wanted:
            return "" if self._replicas[name] == 0 else f"{name} is stopped"
        if name not in self._doubtful or not row.is_settled:
            return f"{name} is on its way: {row.phase} {row.reason} {row.note}"
        return "" if row.reason and row.note else f"{name} does not say why it is {row.phase}"


async def answers(url: str) -> bool:
    try:
        return (await ask(url, "Which model are you?")).startswith(NAMED["yard"])
    except (OSError, aiohttp.ClientError, AssertionError):
        return False


async def walk(home: Path, chance: Random, is_over: Callable[[Walk], bool], leave_out: str = "") -> None:
    """Walk until it is over; then everything must still stop as it should."""
    walking = Walk(home, chance)
    walking.actions.pop(leave_out, None)
    await walking.begin()
    try:
        left: list[str] = []
        while not is_over(walking):
            # Every action once, then again in another order: a short walk meets them all.
            left = left or chance.sample(sorted(walking.actions), len(walking.actions))
            await walking.step(left.pop())
    finally:
        code = await walking.yard.stop()
        print(f"steps: {', '.join(walking.steps)}")
    assert code == 0, walking.yard.output.read_text()
    await walking.yard.until_nothing_runs()


async def test_whatever_users_do_what_is_ready_answers_and_what_is_not_says_why(tmp_path: Path) -> None:
    # Who moves the folder restarts it, too, and each start takes seconds.
    await walk(tmp_path, Random(1), lambda walking: len(walking.steps) == len(walking.actions), "restart")


@pytest.mark.soak
async def test_for_as_long_as_one_likes_what_is_ready_answers_and_what_is_not_says_why(
    tmp_path: Path, seconds: float, chance: Random
) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    await walk(tmp_path, chance, lambda _: loop.time() > end)
