"""The manifests of `modelyard up --model SOURCE`, and of an `up` without any: a Model and its InferenceService."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modelyard.core.resources import Key
from modelyard.core.source import S3, Claim, Hub, Local, parse
from modelyard.home import at_home
from modelyard.kinds.inferenceservice.api import RESOURCE as SERVICE
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.local.files import private_folder, write_private
from modelyard.local.up.user_manifests import check_kept, missing_file
from modelyard.manifests.documents import BadManifest, Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from modelyard.core.objects import Stored
    from modelyard.core.source import Source
    from modelyard.local.up.user_manifests import IsKept

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


def moved_yard(items: Iterable[Stored], state: Path) -> list[Document]:
    """Return the Model of our own model for a state folder that was moved; empty: it was not, or there is none."""
    kept = state / "models" / YARD.name
    made = documents_for_source(str(kept))[:1] if kept.is_file() else []
    return [document for document in made if any(_has_lost(item, document, kept) for item in items)]


def _has_lost(item: Stored, document: Document, kept: Path) -> bool:
    """Whether an object is the Model of our own model, and names its file where the state folder was before."""
    if (item.resource, item.meta.key) != (MODEL, Key("default", document.body["metadata"]["name"])):
        return False
    lost = missing_file(str(item.spec.get("source", "")))
    return lost is not None and lost.parts[-2:] == kept.parts[-2:]


def documents_for_sources(sources: Sequence[str], is_kept: IsKept) -> list[Document]:
    """Return a Model and an InferenceService for each source of weights; BadManifest when two would share a name."""
    made: dict[str, tuple[str, list[Document]]] = {}
    for source in sources:
        documents = documents_for_source(source, is_kept)
        name = documents[0].body["metadata"]["name"]
        if name in made:
            both = f"{made[name][0]} and {source}"
            raise BadManifest(f"{_OPTION}: {both} would both be called {name}; write a manifest for one of them")
        made[name] = source, documents
    return [document for _, documents in made.values() for document in documents]


def documents_for_source(source: str, is_kept: IsKept = lambda _: False) -> list[Document]:
    """Return a Model and an InferenceService for a source of weights; BadManifest when it is a file that is missing.

    `is_kept` tells of a source whether the weights are cached: then it may be missing.
    """
    text = _absolute(source, is_kept)
    meaning = parse(text)
    if file := missing_file(text):
        check_kept(text, file, _OPTION, is_kept)
    name = _name(_stem(meaning))
    model: Json = {"source": text, "format": "gguf"}
    service: Json = {"modelRef": name}
    if not _is_gguf(meaning):
        model["format"], service["runtime"] = "safetensors", "vllm"
    return [
        Document(_OPTION, _object(MODEL.api_version, MODEL.kind, name, model)),
        Document(_OPTION, _object(SERVICE.api_version, SERVICE.kind, name, service)),
    ]


def _absolute(source: str, is_kept: IsKept) -> str:
    looks_like_a_path = source.startswith(("/", "./", "../", "~")) or "/" not in source
    if "://" in source or not (looks_like_a_path or Path(source).exists()):
        return source
    file = at_home(Path(source)).absolute().resolve()
    if not file.is_file() and not is_kept(str(file)):
        raise BadManifest(f"{_OPTION}: there is no file {file}; correct the path, or write org/repo or a URL")
    return str(file)


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
