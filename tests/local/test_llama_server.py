"""llama.cpp's server as a program: what its command line means, what it refuses, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest
import xllamacpp as llama

from modelyard.engines.contract import Gpus, Place
from modelyard.engines.llamacpp import LlamaCppOptions, RopeScaling, launch
from modelyard.local.llama_server import SPELLINGS, SWITCHES, VALUES, Refused, parameters
from modelyard.local.ports import free_ports
from modelyard.local.program import LIFELINE
from tests.support.llamacpp import DATA, LAUNCHER, SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

YARD = str(DATA / "yard.gguf")
EVERYTHING = LlamaCppOptions(
    context_size=8192,
    rope_scaling=RopeScaling("yarn", "4.0", 2048),
    parallel_slots=2,
    flash_attention=True,
    jinja=True,
    cache_type_k="q8_0",
    cache_type_v="f16",
    moe_cpu_offload=True,
    moe_cpu_layers=2,
    no_kv_offload=True,
    tensor_overrides=("token_embd=CPU", "output=CPU"),
    batch_size=512,
    u_batch_size=128,
    no_warmup=True,
    reasoning_budget=0,
    reasoning_budget_message="enough",
    extra_args=("--alias", "a,b", "--threads", "3", "--seed", "42", "--embedding", "--pooling", "last"),
)


async def start(*args: str, **more: object) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(*LAUNCHER, *args, stderr=asyncio.subprocess.PIPE, **more)


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, list[str]]:
    async with asyncio.timeout(SECONDS):
        _, err = await process.communicate()
    return process.returncode, err.decode().splitlines()


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
async def server(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await start("--model", YARD, "--port", str(port), "--ctx-size", "256")
    assert process.stderr is not None
    async with asyncio.timeout(SECONDS):
        while f"serving {YARD}" not in (line := (await process.stderr.readline()).decode()):
            assert line, "it ended before it served"
    yield process
    if process.returncode is None:
        process.kill()
        await ended(process)


def test_every_flag_of_the_engine_means_here_what_it_means_there() -> None:
    gpus = Gpus(count=2, layers=20, strategy="tensor", layer_split=("0-24", "25-39"))
    params = parameters(launch(EVERYTHING, Place("/models/m.gguf", 9000, gpus=gpus)).args)
    assert (params.model.path, params.hostnames, params.port) == ("/models/m.gguf", ["0.0.0.0"], 9000)
    assert (params.n_gpu_layers, params.split_mode) == (20, llama.llama_split_mode.LLAMA_SPLIT_MODE_ROW)
    assert params.tensor_split[:3] == [5.0, 3.0, 0.0]
    assert (params.n_ctx, params.n_parallel, params.n_batch, params.n_ubatch) == (8192, 2, 512, 128)
    assert params.rope_scaling_type == llama.llama_rope_scaling_type.LLAMA_ROPE_SCALING_TYPE_YARN
    assert (params.rope_freq_scale, params.yarn_orig_ctx) == (0.25, 2048)
    assert params.flash_attn_type == llama.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    assert (params.cache_type_k, params.cache_type_v) == (llama.ggml_type.GGML_TYPE_Q8_0, llama.ggml_type.GGML_TYPE_F16)
    assert params.tensor_buft_overrides.endswith("token_embd=CPU,output=CPU")
    assert params.tensor_buft_overrides.count("exps=CPU") == 3
    assert (params.use_jinja, params.no_kv_offload, params.warmup, params.endpoint_metrics) == (True, True, False, True)
    assert (params.sampling.reasoning_budget_tokens, params.sampling.reasoning_budget_message) == (0, "enough")
    assert (params.model_alias, params.cpuparams.n_threads, params.sampling.seed) == ({"a", "b"}, 3, 42)
    assert (params.embedding, params.pooling_type) == (True, llama.llama_pooling_type.LLAMA_POOLING_TYPE_LAST)


def test_a_reranker_ranks() -> None:
    assert parameters(["--reranking"]).pooling_type == llama.llama_pooling_type.LLAMA_POOLING_TYPE_RANK


def test_flags_that_users_add_are_known() -> None:
    words = ["--api-key", "a,b", "-np", "3", "--temp", "0.5", "--no-slots", "--no-webui"]
    params = parameters([*words, "--chat-template-kwargs", '{"enable_thinking": false, "mood": "good"}'])
    assert (params.api_keys, params.n_parallel, params.sampling.temp) == (["a", "b"], 3, 0.5)
    assert (params.endpoint_slots, params.ui) == (False, False)
    assert params.default_template_kwargs == {"enable_thinking": "false", "mood": '"good"'}
    assert parameters(["--slots"]).endpoint_slots


def test_every_other_spelling_is_one_of_a_flag() -> None:
    words = ["-m", "/m.gguf", "-c", "512", "-ngl", "9", "-fa", "on", "-t", "3", "-ctk", "q8_0", "--embeddings"]
    params = parameters([*words, "--temperature", "0.5"])
    assert (params.model.path, params.n_ctx, params.n_gpu_layers) == ("/m.gguf", 512, 9)
    assert params.flash_attn_type == llama.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    assert (params.cpuparams.n_threads, params.cache_type_k) == (3, llama.ggml_type.GGML_TYPE_Q8_0)
    assert (params.embedding, params.sampling.temp) == (True, 0.5)
    assert set(SPELLINGS.values()) <= {*SWITCHES, *VALUES}


def test_a_model_without_an_alias_is_called_like_its_file() -> None:
    assert parameters(["--model", "/models/47200caefcd2bda3/tiny.gguf"]).model_alias == {"tiny"}
    assert parameters(["--model", "/models/tiny.gguf", "--alias", "mine"]).model_alias == {"mine"}


def test_the_last_of_equal_flags_wins() -> None:
    assert parameters(["--ctx-size", "1", "--ctx-size", "2"]).n_ctx == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--override-kv", "a=int:1"], "--override-kv is not supported"),
        (["--hf-repo", "org/repo"], "--hf-repo is not supported"),
        (["--ctx-size=5"], "--ctx-size=5 is not supported"),
        (["model.gguf"], "model.gguf is not supported"),
        (["--metrics", "--port"], "--port lacks its value"),
        (["--port", "many"], "--port cannot be 'many'"),
        (["--port", "99999999999"], "--port cannot be '99999999999'"),
        (["--rope-scale", "0"], "--rope-scale cannot be '0'"),
        (["--split-mode", "diagonal"], "choose one of none, layer, row"),
        (["--chat-template-kwargs", "[]"], "write a JSON object"),
        (["--chat-template-kwargs", "{"], "--chat-template-kwargs cannot be '{'"),
        (["--flash-attn", "yes"], "choose one of on, off, auto"),
        (["--override-tensor", "exps=CUDA7"], "--override-tensor cannot be 'exps=CUDA7'"),
    ],
)
def test_what_cannot_be_done_here_is_refused_by_its_name(words: list[str], says: str) -> None:
    with pytest.raises(Refused) as caught:
        parameters(words)
    assert says in str(caught.value)


async def test_a_missing_model_is_one_clear_line() -> None:
    code, lines = await ended(await start("--model", "/no/such.gguf"))
    assert (code, lines) == (1, ["llamacpp: --model '/no/such.gguf' is not a file; fetch it first"])


async def test_a_file_that_is_no_model_is_named() -> None:
    code, lines = await ended(await start("--model", __file__))
    # The library writes its lines from a thread of its own, piece by piece: ours may be in between.
    assert f"llamacpp: {__file__} cannot be served; the lines of llama.cpp say why" in "\n".join(lines)
    assert code == 1


async def test_an_unknown_flag_is_one_clear_line() -> None:
    code, lines = await ended(await start("--model", YARD, "--grp-attn-n", "4"))
    assert (code, len(lines)) == (1, 1)
    assert "--grp-attn-n is not supported on this machine" in lines[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_at_once_even_in_the_middle_of_a_request(
    server: asyncio.subprocess.Process, port: int, number: signal.Signals
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\nhalf")
    await writer.drain()
    server.send_signal(number)
    async with asyncio.timeout(SECONDS):
        code = await server.wait()
    writer.close()
    assert code == 0


async def test_it_ends_when_whoever_started_it_is_gone(port: int) -> None:
    theirs, ours = os.pipe()
    environ = {**os.environ, LIFELINE: str(theirs)}
    process = await start("--model", YARD, "--port", str(port), env=environ, pass_fds=(theirs,))
    os.close(theirs)
    os.close(ours)
    code, _ = await ended(process)
    assert code == 0
