"""Images stand for programs of this machine, and programs are told where to listen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from modelyard.core.image import IMAGE
from modelyard.engines import ENGINES
from modelyard.engines.contract import Gpus
from modelyard.kinds.gateway.api import IMAGE as GATEWAY_IMAGE
from modelyard.kinds.shared import envoy_pod
from modelyard.local.node.process.images import (
    ImagesInvalid,
    ImageTable,
    NoProgram,
    Rule,
    listening,
    listening_env,
    matches,
    short_repository,
)

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = "ghcr.io/ggml-org/llama.cpp:server"


def _table(*installed: str, rules: tuple[Rule, ...] = ()) -> ImageTable:
    """Return a table for a machine with these programs."""
    files = {name: f"/usr/bin/{name}" for name in installed} | {sys.executable: sys.executable}
    return ImageTable(rules, which=files.get)


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("ghcr.io/ggml-org/llama.cpp:server-cuda-b10068", "ghcr.io/ggml-org/llama.cpp"),
        ("localhost:5000/app", "localhost:5000/app"),
        ("localhost:5000/app:1@sha256:abc", "localhost:5000/app"),
        ("docker.io/vllm/vllm-openai:v0.20.0", "vllm/vllm-openai"),
        ("docker.io/library/python:3", "python"),
        ("python", "python"),
    ],
)
def test_a_repository_is_an_image_without_tag_and_digest(image: str, name: str) -> None:
    assert short_repository(image) == name


def test_a_rule_matches_the_repository_and_its_mirrors_only() -> None:
    assert matches("vllm/vllm-openai", "vllm/vllm-openai:v1")
    assert matches("vllm/vllm-openai", "mirror.local:5000/hub/vllm/vllm-openai")
    assert matches("team/*", "registry.local/team/app:2")
    assert not matches("vllm/vllm-openai", "evilvllm/vllm-openai")
    assert not matches("llama.cpp", "not-llama.cpp")


def test_the_cli_of_the_gateway_is_infer_whatever_its_daemon_is_called() -> None:
    image = "ghcr.io/inference-gateway/cli:latest"
    found = _table("infer").resolve(image, ())
    assert found
    assert (found.program, found.rest) == (("/usr/bin/infer",), ())
    with pytest.raises(NoProgram, match="infer is on the PATH"):
        _table().resolve(image, ())


def test_llama_server_on_the_path_is_preferred_and_ours_is_the_fallback() -> None:
    found = _table("llama-server").resolve(LLAMA, ())
    fallback = _table().resolve(LLAMA, ("/app/llama-server", "-v"))
    assert found is not None
    assert found.program == ("/usr/bin/llama-server",)
    assert fallback is not None
    assert (fallback.program[0], fallback.program[-1], fallback.rest) == (
        sys.executable,
        "modelyard.local.llama_server",
        ("-v",),
    )


def test_the_image_of_modelyard_is_this_package() -> None:
    found = _table().resolve(IMAGE, ("modelyard", "fetch"))
    assert found is not None
    assert (found.program, found.rest) == ((sys.executable, "-P", "-m", "modelyard"), ("fetch",))


@pytest.mark.parametrize("engine", ["llamacpp", "vllm", "tgi"])
def test_every_default_image_of_an_engine_has_a_rule(engine: str) -> None:
    table = _table("llama-server", "vllm", "text-generation-launcher")
    assert table.resolve(ENGINES[engine].image(Gpus()), ()) is not None


def test_the_image_of_routers_is_the_envoy_of_this_machine() -> None:
    found = _table().resolve(envoy_pod.IMAGE, ())
    assert found is not None
    assert found.program[-1] == "modelyard.local.envoy"


def test_the_image_of_a_gateway_is_a_program_that_is_told_where_to_listen() -> None:
    found = _table("inference-gateway").resolve(GATEWAY_IMAGE, ())
    assert found is not None
    assert listening_env(found.rule, "127.0.0.9", 8080) == {"SERVER_HOST": "127.0.0.9", "SERVER_PORT": "8080"}
    with pytest.raises(NoProgram, match=r"install the inference gateway so that inference-gateway is on the PATH"):
        _table().resolve(GATEWAY_IMAGE, ())


def test_a_missing_program_names_what_to_install() -> None:
    with pytest.raises(NoProgram, match=r"vllm-openai:v1 on this machine: install vLLM so that vllm is on the PATH"):
        _table().resolve("vllm/vllm-openai:v1", ("vllm", "serve"))


def test_a_command_that_is_not_there_is_named() -> None:
    table = ImageTable([Rule("busybox")], which=lambda _: None)
    with pytest.raises(NoProgram, match=r"busybox on this machine: there is no /bin/ash; put it on the PATH"):
        table.resolve("busybox", ("/bin/ash", "-c", "true"))
    with pytest.raises(NoProgram, match=r"runs the command of the container, which has none; write one"):
        table.resolve("busybox", ())


def test_another_command_of_a_known_image_is_refused() -> None:
    with pytest.raises(NoProgram, match="cannot run the command /bin/sh; remove the command, or add a rule"):
        _table("llama-server", "/bin/sh").resolve(LLAMA, ("/bin/sh", "-c", "rm -rf /"))


def test_an_unknown_image_has_no_rule() -> None:
    assert _table("sh").resolve("busybox", ("sh",)) is None


def test_rules_of_the_user_come_first(tmp_path: Path) -> None:
    file = tmp_path / "images.yaml"
    file.write_text(
        f"images:\n- {{image: ggml-org/llama.cpp, program: [{sys.executable}, mine.py], portEnv: PORT, hostFlag: -H}}\n"
    )
    found = ImageTable.with_file(file).resolve(LLAMA, ())
    assert found is not None
    assert found.program == (sys.executable, "mine.py")
    assert listening(found.rule, ("-H", "0.0.0.0", "x"), "127.97.0.1", 5) == ("x", "-H", "127.97.0.1")
    assert listening_env(found.rule, "127.97.0.1", 5) == {"PORT": "5"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "is not a list"),
        ("- a", "is not a list"),
        ("images: [{imag: a}]", "unknown field"),
        (None, "cannot be read"),
    ],
)
def test_a_broken_file_of_rules_is_one_clear_line(tmp_path: Path, text: str | None, reason: str) -> None:
    file = tmp_path / "images.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ImagesInvalid, match=reason) as caught:
        ImageTable.with_file(file)
    assert "\n" not in str(caught.value)


def test_a_program_is_told_its_address_however_it_was_given_before() -> None:
    rule = Rule("x", host_flag="--host", port_flag="--port")
    given = ("--host", "0.0.0.0", "model", "--port=80", "--host=::")
    assert listening(rule, given, "127.97.0.1", None) == ("model", "--port=80", "--host", "127.97.0.1")
    assert listening(rule, given, "127.0.0.1", 81) == ("model", "--host", "127.0.0.1", "--port", "81")
