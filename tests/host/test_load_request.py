"""What clients may ask for, and what is refused with the name of the field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelyard.host.load_request import decode_request, memory_asked, source_of
from modelyard.host.refusals import Refusal
from modelyard.host.wire import LoadRequest, Options


def decode(**body: Any) -> LoadRequest:
    return decode_request(json.dumps(body).encode())


def test_every_field_is_read_and_unknown_ones_are_ignored() -> None:
    request = decode(
        model="org/repo",
        revision="v2",
        options={"engine": "mlx", "contextSize": 4096, "parallel": 2},
        owner="team/model",
        memory="4Gi",
        priority="high",
        evictionProtection=True,
        aliases=["model"],
        invented="later",
    )
    options = Options("mlx", 4096, 2)
    assert request == LoadRequest(
        "org/repo", "v2", options, "team/model", "4Gi", "high", eviction_protection=True, aliases=("model",)
    )
    assert memory_asked(request) == 4 * 2**30


@pytest.mark.parametrize(("memory", "asked"), [(0, 0), (5, 5), ("5", 5), ("1.5Ki", 1536), ("1500m", 2)])
def test_memory_is_a_number_or_a_quantity(memory: object, asked: int) -> None:
    assert memory_asked(decode(model="org/repo", memory=memory)) == asked


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "model"),
        ({"model": ""}, "length >= 1"),
        ({"model": 5}, "Expected `str`"),
        ({"model": "word"}, "model is a single word"),
        ({"model": "x" * 3000}, "length <= 2048"),
        ({"model": "pvc://claim/path"}, "claim"),
        ({"model": "https://user:word@example.com/m.gguf"}, "password"),
        ({"model": "https://example.com/m.gguf?signature=5"}, "query"),
        ({"model": "https://example.com/m.gguf", "revision": "v2"}, "revision"),
        ({"model": "org/repo", "revision": "a b"}, "revision"),
        ({"model": "org/repo", "options": {"gpuLayers": 5}}, "gpuLayers"),
        ({"model": "org/repo", "options": {"engine": "tgi"}}, "engine"),
        ({"model": "org/repo", "options": {"parallel": 0}}, "parallel"),
        ({"model": "org/repo", "options": {"cacheTypeK": "../q8_0"}}, "cacheTypeK"),
        ({"model": "org/repo", "options": {"cacheTypeV": "q8_0 --log-file x"}}, "cacheTypeV"),
        ({"model": "org/repo", "options": {"jinja": "/etc/passwd"}}, "jinja"),
        ({"model": "org/repo", "options": {"batchSize": "512"}}, "batchSize"),
        ({"model": "org/repo", "options": {"extraArgs": ["--log-file", "x"]}}, "extraArgs"),
        ({"model": "org/repo", "options": {"file": "../m.gguf"}}, "m.gguf"),
        ({"model": "/m.gguf", "options": {"file": "m.gguf"}}, "options.file"),
        ({"model": "org/repo", "memory": "much"}, "memory"),
        ({"model": "org/repo", "memory": "-1"}, "memory"),
        ({"model": "org/repo", "memory": -1}, "memory"),
        ({"model": "org/repo", "priority": "urgent"}, "priority"),
        ({"model": "org/repo", "owner": "x" * 254}, "owner"),
    ],
)
def test_a_bad_request_is_refused_and_named(body: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal, match=says) as refused:
        decode(**body)
    assert (refused.value.status, refused.value.problem.code) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("model", "revision", "source"),
    [
        ("org/repo", "", "org/repo"),
        ("org/repo", "refs/pr/1", "hf://org/repo@refs%2Fpr%2F1"),
        ("hf://org/repo/m.gguf", "v2", "hf://org/repo@v2/m.gguf"),
        ("s3://bucket/prefix/", "", "s3://bucket/prefix/"),
    ],
)
def test_the_revision_becomes_part_of_the_source(model: str, revision: str, source: str) -> None:
    assert source_of(decode(model=model, revision=revision)) == source
