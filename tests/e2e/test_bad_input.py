"""What cannot work is one clear line with the next step, and an exit code that is not 0."""

from __future__ import annotations

import asyncio
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from modelyard.local.ports import is_free
from tests.e2e.yards import COMMAND, NAMED, SECONDS, Yard, command, manifest, model, send_printed, service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOOLS = {"apiVersion": "core.inference-gateway.com/v1alpha1", "kind": "MCP"}
MODEL = "apiVersion: inference.llmkube.dev/v1alpha1\nkind: Model\nmetadata: {name: lost}\nspec: {source: %s}\n"


async def refused(tmp_path: Path, *args: str | Path, **env: str) -> str:
    """Return the one line that is said."""
    code, _, complaint = await command("up", f"--dir={tmp_path}/state", *args, **env)
    assert code == 1
    lines = complaint.splitlines()
    assert len(lines) == 1, complaint
    assert lines[0].startswith("modelyard: ")
    await Yard(tmp_path / "state").until_nothing_runs()
    return lines[0].removeprefix("modelyard: ")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: [", "{file} is not YAML: line 1: "),
        ("\x00", "{file} is not YAML: "),
        ("", "{file} holds no manifest; write one into it, or name another file after -f"),
        ("just words", "{file} is not a Kubernetes object: it has no apiVersion; add it"),
        ("apiVersion: v1", "{file} is not a Kubernetes object: it has no kind; add it"),
        ("apiVersion: v1\nkind: Pod", "{file} has no metadata.name; add it"),
        (MODEL % "/no/such.gguf", "{file}: Model lost: spec.source: there is no file /no/such.gguf; correct the path"),
        (MODEL % "file:///no/such.gguf", "{file}: Model lost: spec.source: there is no file /no/such.gguf; correct"),
    ],
)
async def test_a_file_that_makes_no_sense_is_refused_before_anything_starts(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "given.yaml"
    file.write_text(text)
    assert (await refused(tmp_path, "-f", file)).startswith(complaint.format(file=file))
    assert not (tmp_path / "state").exists()


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = await refused(tmp_path, "-f", tmp_path / "none.yaml")
    assert said == f"{tmp_path}/none.yaml cannot be read (No such file or directory); check the path after -f"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("/no/such.gguf", "--model: there is no file /no/such.gguf; correct the path, or write org/repo or a URL"),
        ("./such.gguf", "--model: there is no file "),
        ("such", "--model: there is no file "),
        ("ftp://host/x.gguf", "source: has the scheme ftp, which is not known; use one of "),
    ],
)
async def test_a_model_that_cannot_be_had_is_refused(tmp_path: Path, source: str, complaint: str) -> None:
    assert (await refused(tmp_path, "--model", source)).startswith(complaint)


async def test_an_unknown_kind_is_named_with_its_file(tmp_path: Path) -> None:
    wrong = {"apiVersion": "inference.llmkube.dev/v1alpha1", "kind": "Modell", "metadata": {"name": "x"}}
    file = manifest(tmp_path / "given.yaml", model("yard"), wrong)
    assert await refused(tmp_path, "-f", file) == (
        f"{file}, document 2: there is no kind Modell in inference.llmkube.dev/v1alpha1 "
        "(it has InferenceService, Model); correct the file"
    )


async def test_a_program_that_has_the_port_on_all_addresses_is_stepped_aside_for(yard: Yard) -> None:
    port = port_pair()
    # Both its port and the one that takes its place, so that the Service has to look further.
    with listening_everywhere(port), listening_everywhere(port + 30_000):
        await yard.apply(service("aside", "yard", endpoint={"port": port}))
        await yard.until_ready("aside")
        async with asyncio.timeout(SECONDS):
            while "InferenceService  aside" not in (said := (await command("status", f"--dir={yard.path}"))[1]):
                await asyncio.sleep(0.1)
        url = next(line.split()[-1] for line in said.splitlines() if "InferenceService  aside" in line)
        await yard.answer_as("yard", url)
    await yard.kubectl("delete", "inferenceservice", "aside")


async def test_a_full_disk_is_named(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    mounted = 'mount -t tmpfs -o size=64m none "$0" && exec "$@"'
    process = await asyncio.create_subprocess_exec(
        *("unshare", "-rm", "sh", "-c", mounted, str(state), *COMMAND, "up", f"--dir={state}"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(SECONDS):
        _, complaint = await process.communicate()
    assert process.returncode == 1
    assert complaint.decode() == (
        f"modelyard: the disk that holds {state} is full; free 1 GB or more, or name a folder elsewhere with --dir\n"
    )


async def test_without_a_network_the_one_time_build_says_so(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    said = await refused(
        tmp_path,
        KUBEBUILDER_ASSETS="",
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        GOMODCACHE=str(tmp_path / "modules"),
        GOPROXY=nowhere,
        GOFLAGS="-mod=mod",
        PIP_INDEX_URL=nowhere,
        PIP_FIND_LINKS="",
        PIP_RETRIES="0",
    )
    assert said.startswith("there is no control plane: the sources cannot be fetched (")
    assert said.endswith("check the network or GOPROXY, then run this again")


async def test_a_folder_that_holds_other_things_is_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    (state / "thesis.tex").write_text("years of work")
    said = await refused(tmp_path)
    assert said == f"{state} is not empty, and not a folder of Modelyard; name another one with --dir"
    assert state.stat().st_mode & 0o777 == 0o755


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    assert (await refused(tmp_path)).startswith(f"{tmp_path}/state: File exists; mend that, or name another folder")


async def test_a_table_of_images_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "images.yaml"
    table.write_text("images: 1")
    assert (await refused(tmp_path, "--images", table)).startswith(f"{table} is not a list of image rules: ")


async def test_detached_a_failure_is_the_same_line(tmp_path: Path) -> None:
    file = manifest(tmp_path / "given.yaml", {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}})
    said = await refused(tmp_path, "--detach", "-f", file)
    assert said.startswith(f"{file}: there is no kind Thing in v1 (it has ")


async def test_detached_what_cannot_serve_on_this_machine_is_named_and_the_rest_serves(tmp_path: Path) -> None:
    where = f"--dir={tmp_path}/state"
    metal = {"hardware": {"accelerator": "metal"}}
    mac = model("yard")
    file = manifest(
        tmp_path / "given.yaml",
        model("yard"),
        {**mac, "metadata": {"name": "mac"}, "spec": {**mac["spec"], **metal}},
        service("yard"),
        service("broken", "yard", extraArgs=["--nonsense"]),
        service("gpu", "yard", resources={"gpu": 1}),
        service("mac"),
        {**TOOLS, "metadata": {"name": "tools"}, "spec": {"image": "localhost/nobody:none"}},
    )
    code, said, complaint = await command("up", where, "--detach", "-f", file)
    assert code == 1
    assert (await send_printed(said)).startswith(NAMED["yard"])
    assert complaint == (
        "modelyard: not ready: InferenceService broken (CrashLoop), InferenceService gpu (InsufficientGPU), "
        "InferenceService mac (WaitingForMetalAgent), MCP tools (ImagePullFailed); it goes on in the background, "
        f"see `modelyard status {where}`\n"
    )
    assert (await command("down", where))[0] == 0


async def test_detached_it_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    where = f"--dir={tmp_path}/state"
    code, _, complaint = await command("up", where, "--detach", "--timeout=1s")
    assert (code, "not ready: " in complaint, "it goes on in the background" in complaint) == (1, True, True)
    async with asyncio.timeout(SECONDS):
        # Within a second, the machine may not even have taken its folder.
        while (await command("down", where))[1] != "stopped\n":
            await asyncio.sleep(0.1)
    code, _, complaint = await command("up", where, "--timeout=1s")
    assert (code, "add --detach" in complaint) == (2, True)


def port_pair() -> int:
    """Return a port that is free, as is the one that takes its place; no outgoing connection gets either."""
    return next(port for port in range(31_000, 32_000) if is_free(port) and is_free(port + 30_000))


@contextmanager
def listening_everywhere(port: int) -> Iterator[None]:
    """Be a program that listens on all addresses of the machine."""
    with socket.socket() as other:
        other.bind(("0.0.0.0", port))
        other.listen()
        yield
