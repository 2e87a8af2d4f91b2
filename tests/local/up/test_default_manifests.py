"""A source alone is enough: the objects for it are made up, with names that people recognize."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from modelyard.core.errors import SpecInvalid
from modelyard.core.objects import Stored
from modelyard.core.source import Local, parse
from modelyard.kinds import ALL
from modelyard.kinds.decode import decode
from modelyard.kinds.model import MODEL
from modelyard.local.up.default_manifests import (
    YARD,
    documents_for_source,
    documents_for_sources,
    keep_yard,
    moved_yard,
)
from modelyard.manifests.documents import BadManifest

if TYPE_CHECKING:
    from pathlib import Path


def never(_: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("source", "name", "kind_of_weights", "runtime"),
    [
        ("https://example.com/files/Tiny_Llama.Q4.gguf?x=1", "tiny-llama-q4", "gguf", None),
        ("hf://Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-q4_k_m.gguf", "qwen2-5-q4-k-m", "gguf", None),
        ("bartowski/Llama-3.2-1B-Instruct-GGUF", "llama-3-2-1b-instruct-gguf", "gguf", None),
        ("meta-llama/Llama-3.1-8B", "llama-3-1-8b", "safetensors", "vllm"),
        ("s3://bucket/7b/model.gguf", "model", "gguf", None),
        ("s3://bucket/7b/", "model-7b", "safetensors", "vllm"),
        ("pvc://claim/deep/phi.gguf", "phi", "gguf", None),
    ],
)
def test_names_and_engines_follow_from_the_source(
    source: str, name: str, kind_of_weights: str, runtime: str | None
) -> None:
    model, service = (document.body for document in documents_for_source(source))
    assert (model["kind"], model["metadata"]["name"], service["metadata"]["name"]) == ("Model", name, name)
    assert model["spec"] == {"source": source, "format": kind_of_weights}
    assert service["spec"] == {"modelRef": name, **({"runtime": runtime} if runtime else {})}


def test_our_own_model_is_there_and_its_objects_are_valid() -> None:
    assert YARD.read_bytes().startswith(b"GGUF")
    kinds = {kind.resource.kind: kind for kind in ALL}
    for document in documents_for_source(str(YARD)):
        kind = kinds[document.body["kind"]]
        assert decode(kind, Stored.from_dict(kind.resource, document.body)).meta.name == "yard"


def test_our_own_model_is_kept_in_the_state_folder(tmp_path: Path) -> None:
    kept = keep_yard(tmp_path)
    assert (kept.parent.parent, kept.read_bytes()) == (tmp_path, YARD.read_bytes())
    before = kept.stat()
    assert keep_yard(tmp_path).stat() == before
    assert documents_for_source(str(kept))[0].body["metadata"]["name"] == "yard"


@pytest.mark.parametrize(
    ("source", "name", "is_mended"),
    [
        ("/before/models/yard.gguf", "yard", True),
        ("file:///before/models/yard.gguf", "yard", True),
        ("/before/models/yard.gguf", "mine", False),
        ("/before/yard.gguf", "yard", False),
        ("https://example.com/models/yard.gguf", "yard", False),
        (str(YARD), "yard", False),
    ],
)
def test_our_own_model_follows_a_state_folder_that_was_moved(
    tmp_path: Path, source: str, name: str, is_mended: bool
) -> None:
    stored = Stored.from_dict(
        MODEL.resource, {"metadata": {"name": name, "namespace": "default"}, "spec": {"source": source}}
    )
    assert moved_yard([stored], tmp_path) == []
    kept = keep_yard(tmp_path)
    sources = [document.body["spec"]["source"] for document in moved_yard([stored], tmp_path)]
    assert sources == ([str(kept)] if is_mended else [])


def test_a_path_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.gguf").touch()
    monkeypatch.chdir(tmp_path)
    assert documents_for_source("a.gguf")[0].body["spec"]["source"] == str(tmp_path / "a.gguf")


def test_a_path_may_hold_a_space(tmp_path: Path) -> None:
    file = tmp_path / "my model.gguf"
    file.touch()
    for source in (str(file), f"file://{quote(str(file))}"):
        model = documents_for_source(source)[0].body
        assert model["metadata"]["name"] == "my-model"
        assert parse(model["spec"]["source"]) == Local(str(file))


def test_what_is_neither_a_file_nor_a_source_is_refused() -> None:
    with pytest.raises(BadManifest, match=r"--model: there is no file .*/nothing; correct the path"):
        documents_for_source("nothing")
    with pytest.raises(SpecInvalid, match="write hf://a/b/c"):
        documents_for_source("a/b/c")


def test_several_sources_are_served_unless_two_would_share_a_name() -> None:
    made = documents_for_sources(["a/Small-GGUF", "b/Large-GGUF"], never)
    assert [document.body["metadata"]["name"] for document in made] == [*["small-gguf"] * 2, *["large-gguf"] * 2]
    with pytest.raises(BadManifest, match="a/Small-GGUF and b/small-gguf would both be called small-gguf; write"):
        documents_for_sources(["a/Small-GGUF", "b/small-gguf"], never)
