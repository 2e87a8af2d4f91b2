"""A terminal shows one picture that changes; everything else gets a line for each piece of news."""

from __future__ import annotations

import io
import shlex
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console

from modelyard.local.up.rows import Row
from modelyard.local.up.screen import Screen, hints, question, report
from modelyard.local.up.state_folder import UpRecord

URL = "http://127.96.1.2:8080/v1/chat/completions"
READY = Row("InferenceService", "yard", "Ready", "1/1", "InferenceReady", URL, "", True, True, True)
DOOR = "http://127.0.0.1:11400/v1"
BROKEN = Row("InferenceService", "green", "Failed", "0/1", "CrashLoop", "", "read its log", True, False, True)


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Clock:
    now = 0.0


def canvas(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, color_system=None, width=120, highlight=False)


def written(where: Console) -> str:
    assert isinstance(where.file, io.StringIO)
    return where.file.getvalue()


def test_on_a_full_disk_lines_are_lost_and_nothing_else() -> None:
    with Path("/dev/full").open("w", buffering=1) as full:
        with Screen(Console(file=full), lambda: 0.0) as screen:
            screen.say("etcd ended by itself")
            screen.show([BROKEN])
        with suppress(OSError):  # what is still in the buffer
            full.close()


def test_without_a_terminal_every_piece_of_news_is_a_line() -> None:
    where, clock = canvas(terminal=False), Clock()
    with Screen(where, now=lambda: NOON + timedelta(seconds=clock.now)) as screen:
        screen.begin("node")
        clock.now = 1.5
        screen.done("node", "2 CPUs")
        clock.now = 62.0
        screen.say("etcd ended by itself")
    assert written(where).splitlines() == [
        "12:00:00  node: starting",
        "12:00:01  node: 2 CPUs",
        "12:01:02  etcd ended by itself",
    ]


def test_a_row_is_told_again_only_when_it_has_changed() -> None:
    where = canvas(terminal=False)
    with Screen(where, now=lambda: NOON) as screen:
        screen.show([READY])
        screen.show([READY, BROKEN])
    assert written(where).splitlines() == [
        f"12:00:00  InferenceService yard: Ready (InferenceReady), ready 1/1 at {URL}",
        "12:00:00  InferenceService green: Failed (CrashLoop), ready 0/1: read its log",
    ]


def test_on_a_terminal_the_picture_holds_steps_rows_and_what_to_do() -> None:
    where = canvas(terminal=True)
    with Screen(where, lambda: 0.0) as screen:
        screen.done("API server", "https://127.0.0.1:1")
        screen.begin("node")
        screen.show([READY, BROKEN])
        where.print(screen.picture())
    text = written(where)
    for words in ("✓  API server  0.0 s  https://127.0.0.1:1", "1 of 2 ready", URL, "green: read its log"):
        assert words in text


def test_the_name_of_a_step_is_on_one_line_while_there_is_no_more_to_say() -> None:
    where = canvas(terminal=True)
    with Screen(where, lambda: 0.0) as screen:
        screen.begin("API server")
        where.print(screen.picture())
    assert "API server" in written(where)


def test_a_narrow_terminal_shows_sentences_and_no_cut_off_names() -> None:
    where = Console(file=io.StringIO(), color_system=None, width=60, highlight=False)
    report(where, [READY], [])
    shown = " ".join(written(where).split())
    assert shown == f"InferenceService yard: Ready (InferenceReady), ready 1/1 at {URL}"


def small_terminal() -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, color_system=None, width=80, height=24, highlight=False, _environ={}
    )


def test_on_a_small_terminal_what_is_waited_for_comes_first_and_addresses_are_whole() -> None:
    where = small_terminal()
    many = [structs.replace(READY, name=f"yard-{number}") for number in range(10)]
    with Screen(where, lambda: 0.0) as screen:
        for step in ("programs", "API server", "definitions", "controllers", "node", "operator"):
            screen.done(step)
        screen.show([*many, BROKEN])
        with where.capture() as picture:
            where.print(screen.picture())
        lines = [line.strip() for line in picture.get().splitlines()]
    assert len(lines) <= 24
    header = next(number for number, line in enumerate(lines) if line.startswith("KIND"))
    assert lines[header + 1].split()[:2] == ["InferenceService", "green"]
    shown = [line for line in lines if line.startswith("yard-")]
    assert shown == [f"yard-{number}: {URL}" for number in range(len(shown))]
    assert shown
    assert f"and {10 - len(shown)} more that are as wanted" in lines
    # What stays in the scrollback is whole.
    assert f"yard-9: {URL}" in written(where)


def test_lines_to_paste_are_never_broken() -> None:
    where = canvas(terminal=False)
    report(where, [READY], hints([READY], Path("/a folder/kubeconfig"), UpRecord(1, "/programs")))
    lines = written(where).splitlines()
    assert f"    {question(URL)}" in lines
    assert "    export KUBECONFIG='/a folder/kubeconfig'" in lines
    assert shlex.split(question(URL))[:3] == ["curl", "-s", URL]


def test_the_door_is_named_first_with_a_question_and_the_settings_of_clients() -> None:
    lines = hints([BROKEN, READY], Path("/kubeconfig"), UpRecord(1, "/programs", DOOR))
    assert lines[:5] == [
        f"All models at one address: {DOOR}",
        f"  export OPENAI_BASE_URL={DOOR} OPENAI_API_KEY=none",
        "",
        "Ask it:",
        f"  {question(f'{DOOR}/chat/completions', 'yard')}",
    ]
    assert '"model":"yard"' in lines[4]


def test_the_door_is_named_while_nothing_is_ready() -> None:
    lines = hints([BROKEN], Path("/kubeconfig"), UpRecord(1, "/programs", DOOR))
    assert (lines[0], lines[3]) == (f"All models at one address: {DOOR}", "Look around:")


@pytest.mark.parametrize(("other", "expected"), [("green", "yard"), ("yard", "team/yard")])
def test_the_question_names_the_namespace_if_the_name_alone_is_that_of_another(other: str, expected: str) -> None:
    rows = [structs.replace(READY, name="team/yard"), structs.replace(BROKEN, name=other)]
    lines = hints(rows, Path("/kubeconfig"), UpRecord(1, "/programs", DOOR))
    assert f'"model":"{expected}"' in lines[4]


def test_the_printed_question_goes_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert shlex.split(question(URL))[:5] == ["curl", "-s", URL, "--noproxy", "*"]


def test_paths_below_the_home_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    lines = hints([BROKEN], Path("/home/me/state/kubeconfig"), UpRecord(1, "/home/me/it's/programs"))
    assert lines[1] == '  export KUBECONFIG="$HOME/state/kubeconfig"'
    assert '"\'"' in lines[2]
