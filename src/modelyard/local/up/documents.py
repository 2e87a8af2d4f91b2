"""The manifests that a user names: read, and checked as far as that is possible before anything runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from msgspec import Struct

from modelyard.core.errors import ModelyardError, SpecInvalid
from modelyard.core.source import Local, parse
from modelyard.kinds.shared.models import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Json = dict[str, Any]

_STDIN: Final = "-"


class BadManifest(ModelyardError):
    """A file holds something that cannot be applied."""


class Document(Struct, frozen=True):
    """One object that a user wants, and where it is written."""

    origin: str
    body: Json

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.origin}: {self.body['kind']} {self.body['metadata']['name']}"


def read_files(files: Iterable[Path]) -> list[Document]:
    """Return all objects of these files, in their order; `-` is standard input."""
    return [document for file in files for document in _read(file)]


def _read(file: Path) -> Iterator[Document]:
    name = "standard input" if str(file) == _STDIN else str(file)
    try:
        text = sys.stdin.read() if str(file) == _STDIN else file.read_text()
        loaded = list(yaml.safe_load_all(text))
    except OSError as error:
        raise BadManifest(f"{name} cannot be read ({error.strerror}); check the path after -f") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadManifest(f"{name} is not YAML: {_place(error)}; correct it there") from error
    bodies = [body for one in loaded if one is not None for body in _members(one)]
    if not bodies:
        raise BadManifest(f"{name} is empty; write a manifest into it, or leave out -f")
    for number, body in enumerate(bodies, start=1):
        yield _checked(f"{name}, document {number}" if len(bodies) > 1 else name, body)


def _members(body: Any) -> list[Any]:
    """Return the objects of a List, as `kubectl get -o yaml` writes several; of anything else, itself."""
    is_list = isinstance(body, dict) and body.get("kind") == "List" and isinstance(body.get("items"), list)
    return body["items"] if is_list else [body]


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or "it holds characters that are not text"
    return f"line {mark.line + 1}: {what}" if mark else " ".join(str(what).split())


def _checked(origin: str, body: Any) -> Document:
    for field in ("apiVersion", "kind"):
        if not isinstance(body, dict) or not isinstance(body.get(field), str):
            raise BadManifest(f"{origin} is not a Kubernetes object: it has no {field}; add it")
    meta = body.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise BadManifest(f"{origin} has no metadata.name; add it")
    document = Document(origin, body)
    if (body["apiVersion"], body["kind"]) == (MODEL.api_version, MODEL.kind):
        _check_weights(document)
    return document


def _check_weights(document: Document) -> None:
    """Refuse a Model whose file is not here. All else that may be wrong with it is found out by the operator."""
    spec = document.body.get("spec")
    source = spec.get("source") if isinstance(spec, dict) else None
    if isinstance(source, str):
        try:
            check_file(source, f"{document.title}: spec.source")
        except SpecInvalid:
            return


def check_file(source: str, what: str) -> None:
    """Refuse a source that is a file of this machine and is not there."""
    local = parse(source)
    if isinstance(local, Local) and not Path(local.path).is_file():
        raise BadManifest(f"{what}: there is no file {local.path}; correct the path, or put the weights there")
