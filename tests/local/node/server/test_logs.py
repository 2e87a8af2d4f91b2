"""Of a log, exactly the part that was asked for is read."""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING

import pytest

from modelyard.local.node.server.log_rotation import trim
from modelyard.local.node.server.log_times import LogTimes
from modelyard.local.node.server.logs import PodLogOptions, read_log
from modelyard.local.node.storage.pod_folders import PodFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MINUTE = 60.0
_THEN = 1_700_000_000.0


class Log:
    """The log of a container that is written at chosen times."""

    def __init__(self, state: Path) -> None:
        folder = PodFolder(state, "uid").container("main")
        folder.make()
        self.file, self.times = folder.log, LogTimes(state)
        self.file.touch()

    def write(self, text: str, minute: float = 0.0) -> None:
        with self.file.open("a") as stream:
            stream.write(text)
        at = _THEN + minute * _MINUTE
        os.utime(self.file, (at, at))
        self.times.note()

    async def read(self, goes_on: Callable[[], bool] = lambda: False, **options: object) -> str:
        access = PodLogOptions(**options)  # type: ignore[arg-type]
        return b"".join([piece async for piece in read_log(self.file, access, self.times, goes_on)]).decode()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


async def test_everything_is_read_if_nothing_is_said(log: Log) -> None:
    log.write("one\ntwo\nthr")
    assert await log.read() == "one\ntwo\nthr"


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        ("", 5, ""),
        ("one\ntwo\n", 0, ""),
        ("one\ntwo\n", 1, "two\n"),
        ("one\ntwo", 1, "two"),
        ("one\ntwo\n", 2, "one\ntwo\n"),
        ("one\ntwo\n", 9, "one\ntwo\n"),
        ("\n\n\n", 2, "\n\n"),
        ("\n", 1, "\n"),
    ],
)
async def test_the_last_lines(log: Log, content: str, lines: int, expected: str) -> None:
    log.write(content)
    assert await log.read(tail_lines=lines) == expected


@pytest.mark.parametrize("count", [1, 7, 500, 1999, 2000, 3000])
async def test_the_last_lines_of_a_log_that_is_read_in_many_pieces(log: Log, count: int) -> None:
    chosen = random.Random(1)
    lines = [f"{number} {'x' * chosen.randrange(300)}\n" for number in range(2000)]
    lines[1000] = "y" * 200_000 + "\n"
    log.write("".join(lines))
    assert await log.read(tail_lines=count) == "".join(lines[-count:])


async def test_no_more_bytes_than_wanted(log: Log) -> None:
    log.write("one\ntwo\n")
    assert await log.read(limit_bytes=5) == "one\nt"
    assert await log.read(limit_bytes=100) == "one\ntwo\n"


async def test_only_what_was_written_since(log: Log) -> None:
    log.write("early\n", minute=0)
    log.write("middle\n", minute=10)
    log.write("late\n", minute=20)
    assert await log.read(since=_THEN - 1) == "early\nmiddle\nlate\n"
    assert await log.read(since=_THEN + 5 * _MINUTE) == "middle\nlate\n"
    assert await log.read(since=_THEN + 5 * _MINUTE, tail_lines=1) == "late\n"
    assert await log.read(since=_THEN + 30 * _MINUTE) == ""


async def test_a_line_that_was_begun_before_is_left_out(log: Log) -> None:
    log.write("early", minute=0)
    log.write(" end\nlate\n", minute=10)
    assert await log.read(since=_THEN + 5 * _MINUTE) == "late\n"


async def test_each_line_shows_when_it_was_written(log: Log) -> None:
    log.write("one\ntwo\n", minute=0)
    log.write("three\nfour", minute=1)
    assert (await log.read(timestamps=True)).splitlines() == [
        "2023-11-14T22:13:20.000000Z one",
        "2023-11-14T22:13:20.000000Z two",
        "2023-11-14T22:14:20.000000Z three",
        "2023-11-14T22:14:20.000000Z four",
    ]


async def test_a_log_that_nobody_noted_has_the_time_of_its_file(log: Log, tmp_path: Path) -> None:
    log.write("one\n", minute=1)
    log.times = LogTimes(tmp_path)
    assert await log.read(timestamps=True) == "2023-11-14T22:14:20.000000Z one\n"
    assert await log.read(since=_THEN) == "one\n"
    assert await log.read(since=_THEN + 2 * _MINUTE) == ""


async def test_another_log_in_the_place_of_the_first_has_its_own_times(log: Log) -> None:
    log.write("a long first line\n", minute=0)
    log.file.write_text("")
    log.write("short\n", minute=5)
    assert await log.read(timestamps=True) == "2023-11-14T22:18:20.000000Z short\n"


async def test_a_log_that_grows_for_days_keeps_few_marks(log: Log) -> None:
    for minute in range(5000):
        log.write("x\n", minute)
    assert sum(map(len, log.times._marks.values())) < 4500
    assert len((await log.read(since=_THEN + 4989.5 * _MINUTE)).splitlines()) == 10


async def test_who_follows_gets_what_is_added_until_the_process_ends(log: Log) -> None:
    log.write("one\n")
    running = True
    pieces: list[bytes] = []

    async def follow() -> None:
        async for piece in read_log(log.file, PodLogOptions(follow=True, timestamps=True), log.times, lambda: running):
            pieces.append(piece)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(follow())
        for number, text in ((1, "tw"), (2, "o\n"), (3, "last")):
            while len(pieces) < number:
                await asyncio.sleep(0.01)
            log.write(text)
        running = False
    text = b"".join(pieces).decode()
    assert [line.split(" ", 1)[1] for line in text.splitlines()] == ["one", "two", "last"]


async def test_who_follows_is_done_when_the_container_starts_again(log: Log) -> None:
    log.write("first run\n")

    async def start_again() -> None:
        log.file.rename(log.file.with_name("log.previous"))
        log.write("second run\n")

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        reading = group.create_task(log.read(lambda: True, follow=True))
        group.create_task(start_again())
    assert reading.result() == "first run\n"


async def test_a_line_of_any_length_is_stamped_once_and_read_in_one_pass(log: Log) -> None:
    log.write("x" * 30_000_000 + "\nend")
    async with asyncio.timeout(60):
        first, second = (await log.read(timestamps=True)).splitlines()
    assert first == f"2023-11-14T22:13:20.000000Z {'x' * 30_000_000}"
    assert second.endswith("Z end")


async def test_of_a_log_that_is_too_long_the_oldest_lines_are_forgotten(log: Log) -> None:
    lines = [f"{number:07}\n" for number in range(100_000)]
    log.write("".join(lines[:-1]), minute=0)
    log.write(lines[-1], minute=1)
    trim(log.file, most=400_000)
    assert log.file.stat().st_blocks * 512 < 300_000
    kept = (await log.read()).splitlines(keepends=True)
    assert 20_000 < len(kept) < 30_000
    assert kept == lines[-len(kept) :]
    assert await log.read(tail_lines=90_000) == "".join(kept)
    assert await log.read(tail_lines=2) == "".join(lines[-2:])
    assert await log.read(since=_THEN + 30) == lines[-1]
    stamped = (await log.read(timestamps=True)).splitlines()
    assert (stamped[0], len(stamped)) == (f"2023-11-14T22:13:20.000000Z {kept[0].rstrip()}", len(kept))


async def test_who_reads_more_slowly_than_a_log_forgets_gets_whole_lines(log: Log) -> None:
    log.write("".join(f"{number:07}\n" for number in range(100_000)))
    pieces = []
    async for piece in read_log(log.file, PodLogOptions(), log.times):
        pieces.append(piece)
        trim(log.file, most=400_000)
    *text, last = b"".join(pieces).decode().split("\n")
    assert (text[0], text[-1], last) == ("0000000", "0099999", "")
    assert all(len(line) == 7 for line in text)


async def test_logs_of_pods_that_are_gone_are_forgotten(log: Log) -> None:
    log.write("one\n")
    log.file.unlink()
    log.times.note()
    assert not log.times._marks
