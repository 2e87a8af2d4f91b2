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
    from collections.abc import Iterable


def read_files(names: Iterable[str]) -> list[Document]:
    """Return all objects of these files; BadManifest when one names weights as a file that is missing."""
    read = documents.read_files(names)
    for document in read:
        _check_weights(document)
    return read


def _check_weights(document: Document) -> None:
    """Raise BadManifest for a Model whose file is missing. The operator finds out what else is wrong with it."""
    body = document.body
    spec = body.get("spec")
    source = spec.get("source") if isinstance(spec, dict) else None
    if (body["apiVersion"], body["kind"]) == (MODEL.api_version, MODEL.kind) and isinstance(source, str):
        try:
            check_file(source, f"{document.title}: spec.source")
        except SpecInvalid:
            return


def check_file(source: str, what: str) -> None:
    """Raise BadManifest for a source that is a file of this machine and is missing; `what` names the field."""
    local = parse(source)
    if isinstance(local, Local) and not Path(local.path).is_file():
        raise BadManifest(f"{what}: there is no file {local.path}; correct the path, or put the weights there")
