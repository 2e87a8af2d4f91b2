"""A file of weights that is missing is refused before anything starts, unless the cache has a copy of it."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
import yaml

from modelyard.core.source import cache_key
from modelyard.local.up.default_manifests import YARD, documents_for_source
from modelyard.local.up.user_manifests import missing_files, read_files
from modelyard.local.up.weights import are_kept
from modelyard.manifests.documents import BadManifest

if TYPE_CHECKING:
    from pathlib import Path


def manifest(folder: Path, source: str) -> str:
    body = {"apiVersion": "inference.llmkube.dev/v1alpha1", "kind": "Model", "metadata": {"name": "a"}}
    file = folder / "model.yaml"
    file.write_text(yaml.safe_dump({**body, "spec": {"source": source}}))
    return str(file)


async def keep(state: Path, source: str) -> None:
    """Fetch weights into a cache of a state folder, as a pod does."""
    folder = state / "volumes" / "pvc-1" / cache_key(source)
    words = ("fetch", source, "--to", str(folder), "--allow-root", "/")
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "modelyard", *words)
    assert await process.wait() == 0


async def test_a_missing_file_is_refused_unless_its_weights_are_kept(tmp_path: Path) -> None:
    file, state = tmp_path / "mine.gguf", tmp_path / "state"
    named, is_kept = manifest(tmp_path, f"file://{file}"), partial(are_kept, state)
    with pytest.raises(BadManifest, match=r"Model a: spec\.source: there is no file .*/mine\.gguf; correct the path"):
        read_files([named], is_kept)
    with pytest.raises(BadManifest, match=r"--model: there is no file .*/mine\.gguf; correct the path"):
        documents_for_source(str(file), is_kept)

    file.write_bytes(YARD.read_bytes())
    for source in (f"file://{file}", str(file)):
        await keep(state, source)
    assert missing_files(read_files([named], is_kept)) == []

    file.unlink()
    assert missing_files(read_files([named], is_kept)) == [file]
    assert missing_files(documents_for_source(str(file), is_kept)) == [file]


def test_a_source_that_makes_no_sense_is_left_to_the_api_server(tmp_path: Path) -> None:
    assert missing_files(read_files([manifest(tmp_path, "a/b/c")], lambda _: False)) == []
