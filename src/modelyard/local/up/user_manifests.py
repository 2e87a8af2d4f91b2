"""The manifests that a user names, checked as far as possible before anything runs. `commands` reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from modelyard.core.errors import SpecInvalid
from modelyard.core.source import Local, parse
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.manifests import documents
from modelyard.manifests.documents import BadManifest, Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    IsKept = Callable[[str], bool]


def read_files(names: Iterable[str], is_kept: IsKept) -> list[Document]:
    """Return all objects of these files; BadManifest when one names weights as a file that is missing.

    `is_kept` tells of a source whether the weights are cached: then it may be missing.
    """
    read = documents.read_files(names)
    for document, source in _sources(read):
        if file := missing_file(source):
            check_kept(source, file, f"{document.title}: spec.source", is_kept)
    return read


def missing_files(made: Iterable[Document]) -> list[Path]:
    """Return the files that Models name and that do not exist."""
    return [file for _, source in _sources(made) if (file := missing_file(source))]


def missing_file(source: str) -> Path | None:
    """Return the file of this machine that a source names, if it does not exist; None: it does, or it is none."""
    try:
        local = parse(source)
    except SpecInvalid:
        # The API server says what is wrong with it.
        return None
    file = Path(local.path) if isinstance(local, Local) else None
    return file if file and not file.is_file() else None


def check_kept(source: str, file: Path, what: str, is_kept: IsKept) -> None:
    """Raise BadManifest for a missing file whose weights are not cached either; `what` names the field."""
    if not is_kept(source):
        raise BadManifest(f"{what}: there is no file {file}; correct the path, or put the weights there")


def _sources(made: Iterable[Document]) -> Iterator[tuple[Document, str]]:
    for document in made:
        body = document.body
        spec = body.get("spec")
        source = spec.get("source") if isinstance(spec, dict) else None
        if (body["apiVersion"], body["kind"]) == (MODEL.api_version, MODEL.kind) and isinstance(source, str):
            yield document, source
