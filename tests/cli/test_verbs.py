"""The list of verbs: what it says of each, and that a call loads no more than its verb needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from modelyard import __version__
from modelyard.cli.verbs import app, command

ROOT = Path(__file__).parents[2]
LISTED = typer.main.get_group(app).commands
CLUSTER = {"kinds", "kube", "cluster", "runtime", "manifests", "app"}


def loaded(statement: str) -> set[str]:
    """Return the packages of ours and the names of others that a new interpreter has loaded after a statement."""
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, check=True)
    return {name.removeprefix("modelyard.").partition(".")[0] for name in done.stdout.split()}


def test_the_list_of_verbs_loads_none_of_them() -> None:
    there = loaded("import modelyard.cli.verbs as verbs; verbs.typer.main.get_command(verbs.app)")
    assert {"cli", "typer"} <= there
    assert (
        there & {*CLUSTER, "core", "engines", "host", "local", "net", "page", "weights", "msgspec", "aiohttp"} == set()
    )


@pytest.mark.parametrize(
    ("verb", "works_with", "without"),
    [
        ("fetch", "weights", {*CLUSTER, "engines", "local", "net", "page"}),
        # What reconciles objects takes longer to load than a cluster takes to list them.
        (
            "get",
            "cluster",
            {"app", "engines", "host", "kinds", "local", "net", "page", "structlog", "prometheus_client"},
        ),
    ],
)
def test_a_verb_loads_only_what_it_works_with(verb: str, works_with: str, without: set[str]) -> None:
    there = loaded(f"from modelyard.cli.verbs import command; command({verb!r})")
    assert works_with in there
    assert there & without == set()


def test_to_find_the_machine_that_runs_loads_no_kinds() -> None:
    assert loaded("import modelyard.cli.one_machine") & {"kinds", "engines", "cluster", "net"} == set()


@pytest.mark.parametrize("verb", LISTED)
def test_a_verb_is_listed_with_the_first_paragraph_of_its_help(verb: str) -> None:
    whole = command(verb).help
    assert LISTED[verb].help == whole.partition("\n\n")[0].replace("\n", " ")


@pytest.mark.parametrize("words", [["--version"], ["version"]])
def test_the_version_is_told(words: list[str]) -> None:
    assert CliRunner().invoke(app, words).stdout == f"{__version__}\n"


def test_a_verb_that_does_not_exist_is_refused_with_what_is_meant() -> None:
    refused = CliRunner().invoke(app, ["explian"])
    assert refused.exit_code == 2
    assert "Did you mean 'explain'" in refused.stderr
