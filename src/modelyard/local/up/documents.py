"""The manifests that a user names, checked as far as that is possible before anything runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import SpecInvalid
from modelyard.core.source import Local, parse
from modelyard.kinds.shared.models import MODEL
from modelyard.manifests.documents import BadManifest, Document, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable

# Those that kubectl reads of a folder.
_SUFFIXES: Final = (".json", ".yaml", ".yml")


def read_files(names: Iterable[str]) -> list[Document]:
    """Return all objects of these files, in their order; `-` is standard input, of a folder all manifests are meant."""
    documents = [document for name in names for file in _files(name) for document in read_file(file)]
    for document in documents:
        _check_weights(document)
    return documents


def _files(name: str) -> list[Path]:
    if "://" in name:
        raise BadManifest(f"{name} is a URL, which is not read; pipe it in with `curl -fsSL URL | modelyard up -f -`")
    path = at_home(Path(name))
    if not path.is_dir():
        return [path]
    try:
        found = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    except OSError as error:
        raise BadManifest(f"{path} cannot be read ({error.strerror}); check the path after -f") from error
    if not found:
        raise BadManifest(f"{path} holds no file that ends in {', '.join(_SUFFIXES)}; check the path after -f")
    return found


def at_home(path: Path) -> Path:
    """Return what `~/x` means, which a shell leaves as it is after `=`; `~x` is a file if there is no such user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - the other one raises if there is no such user


def _check_weights(document: Document) -> None:
    """Refuse a Model whose file is not here. All else that may be wrong with it is found out by the operator."""
    body = document.body
    spec = body.get("spec")
    source = spec.get("source") if isinstance(spec, dict) else None
    if (body["apiVersion"], body["kind"]) == (MODEL.api_version, MODEL.kind) and isinstance(source, str):
        try:
            check_file(source, f"{document.title}: spec.source")
        except SpecInvalid:
            return


def check_file(source: str, what: str) -> None:
    """Refuse a source that is a file of this machine and is not there."""
    local = parse(source)
    if isinstance(local, Local) and not Path(local.path).is_file():
        raise BadManifest(f"{what}: there is no file {local.path}; correct the path, or put the weights there")
