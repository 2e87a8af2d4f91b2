"""The page of the daemon, its options, its metrics and its units say the same."""

from __future__ import annotations

import plistlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from modelyard.cli.host import app
from modelyard.host.memory import MemoryLedger
from modelyard.host.metrics import HostMetrics
from modelyard.host.settings import DRAIN_SECONDS
from modelyard.host.wire import Code, Entry, HostEntry, LoadRequest, Options, State

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "host.md").read_text()


def missing(names: Iterable[str]) -> list[str]:
    return [name for name in names if f"`{name}`" not in PAGE]


def encoded(kind: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def test_every_option_is_listed() -> None:
    options = [option for parameter in typer.main.get_group(app).params for option in parameter.opts]
    assert "--listen" in options
    assert missing(options) == []


def test_every_metric_is_listed() -> None:
    metrics = HostMetrics()
    metrics.bind((), MemoryLedger(1))
    families = metrics.registry.collect()
    assert missing(family.name + ("_total" if family.type == "counter" else "") for family in families) == []


def test_every_field_state_and_code_is_listed() -> None:
    options = [f"options.{name}" for name in encoded(Options)]
    fields = [name for name in (*encoded(LoadRequest), *encoded(Entry), *encoded(HostEntry)) if name != "options"]
    assert missing([*fields, *options, *State, *Code]) == []


def test_the_units_wait_for_the_drain() -> None:
    launchd = plistlib.loads((ROOT / "deploy" / "host" / "dev.modelyard.host.plist").read_bytes())
    systemd = (ROOT / "deploy" / "host" / "modelyard-host.service").read_text()
    (timeout,) = re.findall(r"^TimeoutStopSec=(\d+)$", systemd, re.MULTILINE)
    assert launchd["ExitTimeOut"] == int(timeout) > DRAIN_SECONDS
    assert launchd["ProgramArguments"][-1] == "exec modelyard host"
    assert "modelyard host\n" in systemd


def test_the_unit_of_systemd_keeps_the_other_models_when_an_engine_is_killed() -> None:
    systemd = (ROOT / "deploy" / "host" / "modelyard-host.service").read_text()
    # The kernel kills an engine first (`prefer_oom_kill`), and the default of systemd stops the service then.
    assert "\nOOMPolicy=continue\n" in systemd
    assert "\nKillMode=mixed\n" in systemd
