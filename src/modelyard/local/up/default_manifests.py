"""The manifests of `modelyard up --model SOURCE`, and of an `up` without any: a Model and its InferenceService."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modelyard.core.source import S3, Claim, Hub, Local, parse
from modelyard.kinds.inferenceservice.api import RESOURCE as SERVICE
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.local.files import private_folder, write_private
from modelyard.local.up.user_manifests import check_file
from modelyard.manifests.documents import BadManifest, Document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelyard.core.source import Source

YARD: Final = Path(__file__).resolve().parents[2] / "data" / "yard.gguf"
"""Our own small model, which comes with the package."""

Json = dict[str, Any]

_OPTION: Final = "--model"
_LONGEST: Final = 50


def keep_yard(state: Path) -> Path:
    """Return our own model as a file of the state folder, copied there if it is not yet.

    Its Model outlives the package that it came with: a clone that is moved or removed must not take it along.
    """
    kept = private_folder(state / "models") / YARD.name
    if not kept.is_file():
        write_private(kept, YARD.read_bytes())
    return kept


def documents_for_sources(sources: Sequence[str]) -> list[Document]:
    """Return a Model and an InferenceService for each source of weights; BadManifest when two would share a name."""
    made: dict[str, tuple[str, list[Document]]] = {}
    for source in sources:
        documents = documents_for_source(source)
        name = documents[0].body["metadata"]["name"]
        if name in made:
            both = f"{made[name][0]} and {source}"
            raise BadManifest(f"{_OPTION}: {both} would both be called {name}; write a manifest for one of them")
        made[name] = source, documents
    return [document for _, documents in made.values() for document in documents]


def documents_for_source(source: str) -> list[Document]:
    """Return a Model and an InferenceService for a source of weights; BadManifest when it is a file that is missing."""
    text = _absolute(source)
    check_file(text, _OPTION)
    meaning = parse(text)
    name = _name(_stem(meaning))
    model: Json = {"source": text, "format": "gguf"}
    service: Json = {"modelRef": name}
    if not _is_gguf(meaning):
        model["format"], service["runtime"] = "safetensors", "vllm"
    return [
        Document(_OPTION, _object(MODEL.api_version, MODEL.kind, name, model)),
        Document(_OPTION, _object(SERVICE.api_version, SERVICE.kind, name, service)),
    ]


def _absolute(source: str) -> str:
    looks_like_a_path = source.startswith(("/", "./", "../", "~")) or "/" not in source
    if "://" in source or not (looks_like_a_path or Path(source).exists()):
        return source
    file = Path(source).expanduser().absolute()
    if not file.is_file():
        raise BadManifest(f"{_OPTION}: there is no file {file}; correct the path, or write org/repo or a URL")
    return str(file.resolve())


def _stem(source: Source) -> str:
    match source:
        case Hub(repo=repo, file=file):
            path = file or repo
        case S3(key=path) | Claim(path=path) | Local(path=path):
            pass
        case _:
            path = source.name
    return path.rstrip("/").rpartition("/")[2].removesuffix(".gguf")


def _name(text: str) -> str:
    """Return a name for both objects. It becomes that of a Service, which must begin with a letter."""
    clean = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return (clean if clean[:1].isalpha() else f"model-{clean}")[:_LONGEST].strip("-")


def _is_gguf(source: Source) -> bool:
    """Whether a source is GGUF, which llama.cpp serves. Of a whole repository the name tells, as usual on the hub."""
    if isinstance(source, Hub):
        return source.file.endswith(".gguf") if source.file else "gguf" in source.repo.lower()
    return not (isinstance(source, S3) and source.key.endswith("/"))


def _object(api_version: str, kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
