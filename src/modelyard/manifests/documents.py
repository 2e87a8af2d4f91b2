"""Manifests that a user names after `-f`, read as `kubectl` reads them. An object without kind or name is refused."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.core.objects import Json
from modelyard.home import at_home
from modelyard.kinds.model.api import RESOURCE as MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_STDIN: Final = "-"
_TITLES: Final = {_STDIN: "standard input"}
# Those that kubectl reads of a folder.
_SUFFIXES: Final = (".json", ".yaml", ".yml")
_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml")
# Far more than the API server takes. A few lines of aliases can stand for billions.
_MOST_VALUES: Final = 1_000_000
_ENDLESS: Final = "a part of it contains itself, or it is nested too deeply, or its aliases stand for too much"


class BadManifest(ModelyardError):
    """A file holds something that is no object, or none that can be used."""


class Document(Struct, frozen=True):
    """One object of a manifest, and the file that it comes from."""

    origin: str
    body: Json

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.origin}: {self.body['kind']} {self.body['metadata']['name']}"


def read_files(names: Iterable[str]) -> list[Document]:
    """Return all objects of these files, in their order; `-` is standard input, of a folder all manifests are meant."""
    return [document for name in names for document in _read(name)]


def _read(name: str) -> list[Document]:
    files = _files(name)
    documents = [document for file in files for document in _documents(file)]
    if not documents:
        title = _TITLES.get(name, name)
        raise BadManifest(f"{title} holds no manifest; write one into it, or name another file after -f")
    return documents


def _files(name: str, above: tuple[Path, ...] = ()) -> list[Path]:
    """Return the files that a name stands for; `above`: the folders whose kustomizations have led here."""
    if "://" in name:
        raise BadManifest(f"{name} is a URL, which is not read; pipe it in with `curl -fsSL URL | modelyard ... -f -`")
    path = at_home(Path(name))
    try:
        return _folder(path, above) if path.is_dir() else [path]
    except OSError as error:
        raise BadManifest(f"{path} cannot be read ({error.strerror}); check the path after -f") from error


def _folder(path: Path, above: tuple[Path, ...]) -> list[Path]:
    """Return the manifests of a folder: those that its kustomization lists, else all that kubectl would read."""
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    kustomization = next((file for file in files if file.name in _KUSTOMIZATIONS), None)
    return _resources(kustomization, above) if kustomization else files


def _resources(kustomization: Path, above: tuple[Path, ...]) -> list[Path]:
    """Return the files that a kustomization lists; BadManifest when it says more, which only kustomize carries out."""
    said: Any = next((one for one in _loaded(kustomization, str(kustomization)) if one is not None), {})
    fields = set(said) if isinstance(said, dict) else {"no fields"}
    if more := sorted(fields - {"apiVersion", "kind", "metadata", "resources"}):
        raise BadManifest(
            f"{kustomization} holds {', '.join(more)}, which only kustomize carries out; "
            f"pipe it in with `kubectl kustomize {shlex.quote(str(kustomization.parent))} | modelyard ... -f -`"
        )
    above = (*above, kustomization.parent.resolve())
    listed = [_below(kustomization.parent, str(name), above) for name in said.get("resources") or ()]
    return [file for name in listed for file in _files(name, above)]


def _below(folder: Path, name: str, above: tuple[Path, ...]) -> str:
    if "://" in name:
        return name
    if any(each.is_relative_to((folder / name).resolve()) for each in above):
        raise BadManifest(f"the kustomization of {folder} lists the folder {name}, which it is in; remove that line")
    return str(folder / name)


def _documents(file: Path) -> Iterator[Document]:
    name = _TITLES.get(str(file), str(file))
    folder = Path() if str(file) == _STDIN else file.parent
    bodies = [body for one in _loaded(file, name) if one is not None for body in _members(one)]
    for number, body in enumerate(bodies, start=1):
        found = _checked(f"{name}, document {number}" if len(bodies) > 1 else name, _stated(body))
        yield Document(found.origin, _with_absolute_source(found.body, folder))


def _with_absolute_source(body: Json, folder: Path) -> Json:
    """Return a Model whose source is an absolute path, if it is written as a path beside its manifest."""
    spec = body["spec"] if isinstance(body.get("spec"), dict) else {}
    source = spec.get("source")
    is_model = (body["apiVersion"], body["kind"]) == (MODEL.api_version, MODEL.kind)
    if not is_model or not isinstance(source, str) or not source.startswith(("./", "../")):
        return body
    return {**body, "spec": {**spec, "source": str((folder / source).resolve())}}


def _loaded(file: Path, name: str) -> list[Any]:
    try:
        content = sys.stdin.buffer.read() if str(file) == _STDIN else file.read_bytes()
        found = list(yaml.safe_load_all(content))
        if _size(found, {}) > _MOST_VALUES:
            raise RecursionError
    except OSError as error:
        raise BadManifest(f"{name} cannot be read ({error.strerror}); check the path after -f") from error
    # A ValueError: of what looks like a date and is none.
    except (yaml.YAMLError, ValueError) as error:
        raise BadManifest(f"{name} is not YAML: {_place(error)}; correct it there") from error
    except RecursionError:
        raise BadManifest(f"{name} cannot be read: {_ENDLESS}; correct it") from None
    return found


def _size(value: Any, known: dict[int, int]) -> int:
    """Return how many values a document has with all aliases written out, which are counted only once."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        # Until it is counted: what contains itself is too large.
        known[id(value)] = _MOST_VALUES
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(value)]


def _members(body: Any) -> list[Any]:
    """Return the objects of a List, as `kubectl get -o yaml` writes several; of anything else, itself.

    The API server writes a ConfigMapList, whose members need not say what they are.
    """
    if not isinstance(body, dict) or not isinstance(body.get("items"), list):
        return [body]
    kind = str(body.get("kind")).removesuffix("List")
    if kind == body.get("kind"):
        return [body]
    told = {"apiVersion": body.get("apiVersion"), "kind": kind} if kind else {}
    return [{**told, **each} if isinstance(each, dict) else each for each in body["items"]]


def _stated(value: Any) -> Any:
    """Return a document without what is null: templates leave such fields behind, and `kubectl apply` drops them."""
    if isinstance(value, dict):
        return {_word(name): _stated(part) for name, part in value.items() if part is not None}
    return [_stated(part) for part in value] if isinstance(value, list) else value


def _word(name: Any) -> str:
    """Return a key as JSON can have it, which YAML takes for a truth, a number or a date if it looks like one."""
    return name if isinstance(name, str) else msgspec.json.encode(name).decode().strip('"')


def _place(error: Exception) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return "it holds characters that are not text"
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or error
    return f"line {mark.line + 1}: {what}" if mark else " ".join(str(what).split())


def _checked(origin: str, body: Any) -> Document:
    for field in ("apiVersion", "kind"):
        if not isinstance(body, dict) or field not in body:
            raise BadManifest(f"{origin} is not a Kubernetes object: it has no {field}; add it")
        _expect_text(origin, field, body[field])
    meta = body.get("metadata")
    if not isinstance(meta, dict) or "name" not in meta:
        raise BadManifest(f"{origin} has no metadata.name; add it")
    for field in ("name", "namespace"):
        _expect_text(origin, f"metadata.{field}", meta.get(field, ""))
    return Document(origin, body)


def _expect_text(origin: str, field: str, value: Any) -> None:
    if not isinstance(value, str):
        raise BadManifest(f"{origin} gives {field} the value {value!r}, which is no text; write it in quotes")
