"""Which engine serves what, and how it is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelyard.host.engines import (
    ENGINES,
    Custom,
    EnginesInvalid,
    Serving,
    command,
    engine_for,
    ignored_options,
    read_customs,
)
from modelyard.host.refusals import LoadFailed
from modelyard.host.wire import EngineName, LoadRequest, Options

FILE = Path("/weights/m.gguf")
OPTIONS = Options(context_size=4096, parallel=2)


@pytest.mark.parametrize(
    ("model", "apple", "gpu", "engine"),
    [
        ("https://example.com/m.gguf", True, True, "llamacpp"),
        ("hf://org/repo/M.GGUF", True, False, "llamacpp"),
        ("org/Model-GGUF", True, False, "llamacpp"),
        ("mlx-community/Model-4bit", True, False, "mlx"),
        ("org/model", False, True, "vllm"),
        ("org/model", False, False, "llamacpp"),
    ],
)
def test_the_engine_fits_weights_and_machine(model: str, apple: bool, gpu: bool, engine: str) -> None:
    assert engine_for(LoadRequest(model), is_apple=apple, has_gpu=gpu).name == engine


def test_the_engine_that_is_asked_for_is_taken() -> None:
    request = LoadRequest("org/Model-GGUF", options=Options(engine="vllm"))
    assert engine_for(request, is_apple=True).name == "vllm"


def test_a_picked_file_is_a_gguf() -> None:
    assert engine_for(LoadRequest("org/model", options=Options(file="m.gguf")), is_apple=True).name == "llamacpp"


def test_llama_cpp_serves_one_file_under_the_id() -> None:
    words = command(ENGINES["llamacpp"], Serving("org/m", FILE, 9000, OPTIONS, 0.5), Custom(("llama-server",)))
    assert words == (
        "llama-server", "--model", "/weights/m.gguf", "--alias", "org/m", "--host", "127.0.0.1", "--port", "9000",
        "--metrics", "--n-gpu-layers", "99", "--ctx-size", "4096", "--parallel", "2",
    )  # fmt: skip


def test_llama_cpp_is_told_all_options() -> None:
    options = Options(
        flash_attention=True, jinja=True, cache_type_k="q8_0", cache_type_v="q4_0", batch_size=512, u_batch_size=128,
        reasoning_budget=0,
    )  # fmt: skip
    words = command(ENGINES["llamacpp"], Serving("org/m", FILE, 9000, options), Custom(("llama-server",)))
    assert words[words.index("--metrics") + 1 :][-13:] == (
        "--flash-attn", "on", "--jinja", "--cache-type-k", "q8_0", "--cache-type-v", "q4_0", "--batch-size", "512",
        "--ubatch-size", "128", "--reasoning-budget", "0",
    )  # fmt: skip
    assert ignored_options(ENGINES["llamacpp"], options) == ()


@pytest.mark.parametrize(
    ("engine", "ignored"),
    [
        ("mlx", ("cacheTypeK", "contextSize", "parallel", "reasoningBudget")),
        ("vllm", ("cacheTypeK", "reasoningBudget")),
        ("llamacpp", ()),
    ],
)
def test_options_that_an_engine_does_not_have_are_named(engine: EngineName, ignored: tuple[str, ...]) -> None:
    asked = Options(engine, 4096, 2, "m.gguf", cache_type_k="q8_0", reasoning_budget=0)
    assert ignored_options(ENGINES[engine], asked) == ignored


def test_mlx_serves_the_folder_that_is_linked_under_the_id() -> None:
    words = command(ENGINES["mlx"], Serving("org/m", Path("/weights"), 9000), Custom(("mlx_lm.server",)))
    assert words == ("mlx_lm.server", "--model", "org/m", "--host", "127.0.0.1", "--port", "9000")


def test_vllm_takes_no_more_of_the_gpus_than_is_reserved() -> None:
    serving = Serving("org/m", Path("/weights"), 9000, OPTIONS, 0.25)
    words = command(ENGINES["vllm"], serving, Custom(("vllm", "serve"), ("--dtype", "half")))
    assert words == (
        "vllm", "serve", "/weights", "--served-model-name", "org/m", "--host", "127.0.0.1", "--port", "9000",
        "--gpu-memory-utilization", "0.250", "--max-model-len", "4096", "--max-num-seqs", "2", "--dtype", "half",
    )  # fmt: skip


def test_an_engine_that_is_not_installed_is_named_with_its_remedy() -> None:
    with pytest.raises(LoadFailed, match="vllm is not on this host; install vLLM") as failed:
        command(ENGINES["vllm"], Serving("org/m", Path("/weights"), 9000), Custom())
    assert (failed.value.problem.code, failed.value.is_final) == ("EngineMissing", True)


def test_a_file_says_how_to_start_engines(tmp_path: Path) -> None:
    file = tmp_path / "engines.yaml"
    file.write_text("mlx:\n  command: [uvx, --from, mlx-lm, mlx_lm.server]\n  args: [--log-level, DEBUG]\n")
    custom = Custom(("uvx", "--from", "mlx-lm", "mlx_lm.server"), ("--log-level", "DEBUG"))
    assert read_customs(file) == {"mlx": custom}
    assert read_customs(None) == {}


@pytest.mark.parametrize("text", ["tgi: {}", "mlx: {program: [x]}", "mlx: [", "[]", "mlx: {command: x}"])
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "engines.yaml"
    file.write_text(text)
    with pytest.raises(EnginesInvalid, match=str(file)):
        read_customs(file)
