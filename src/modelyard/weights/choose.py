"""The choice of the files to fetch from a repository or an S3 prefix. Pure.

A repository usually holds the same model many times over, in many sizes. One GGUF is taken; of several, the user has to
choose. The parts of a split file are one file to us: an engine needs all of them. For engines that serve a folder,
everything is taken but what they never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.exitcodes import Code
from modelyard.core.source import parts
from modelyard.weights.failures import FetchFailed
from modelyard.weights.names import is_ours

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_PARTS: Final = 99_999  # as many as their names can count
_SHOWN: Final = 20

_SAFETENSORS: Final = ".safetensors"
_OTHER_FORMATS: Final = (".bin", ".pt", ".pth", ".msgpack", ".h5", ".onnx", ".gguf")
_ORIGINAL: Final = "original/"
"""Where publishers keep the same weights in the format they were trained in."""


def choose(available: Iterable[str], picked: Iterable[str], *, everything: bool = False) -> tuple[str, ...]:
    """Return the names to fetch, the one to serve first."""
    names = sorted(available)
    if everything:
        return _all_that_is_read(names)
    if wanted := tuple(dict.fromkeys(picked)):
        return tuple(dict.fromkeys(part for name in wanted for part in _parts(_existing(name, names), names)))
    whole = [name for name in names if name.lower().endswith(".gguf") and _is_first(name)]
    if not whole:
        remedy = f"take all with --all, or pick with --file: {_listed(names)}"
        raise FetchFailed(Code.REFUSED, "the source holds no GGUF file", remedy)
    if len(whole) > 1:
        raise FetchFailed(Code.REFUSED, "the source holds several models", f"pick with --file: {_listed(whole)}")
    return _parts(whole[0], names)


def is_split(name: str) -> bool:
    """Whether a name is that of one part of several. Engines find the other parts by this very name."""
    return bool(_first(name))


def _all_that_is_read(names: list[str]) -> tuple[str, ...]:
    read = [name for name in names if not is_ours(name) and not _is_of_git(name)]
    if any(name.endswith(_SAFETENSORS) and not name.startswith(_ORIGINAL) for name in read):
        read = [name for name in read if not _is_duplicate(name)]
    if not read:
        raise FetchFailed(Code.NOT_FOUND, "the source holds no files", "check that it is the one that was meant")
    return tuple(read)


def _is_of_git(name: str) -> bool:
    return any(part.startswith(".git") for part in name.split("/"))


def _is_duplicate(name: str) -> bool:
    return name.startswith(_ORIGINAL) or name.lower().endswith(_OTHER_FORMATS)


def _existing(name: str, names: list[str]) -> str:
    if name not in names:
        message = f"the source holds no file {name!r}"
        raise FetchFailed(Code.NOT_FOUND, message, f"choose one of {_listed(names)}")
    return name


def _is_first(name: str) -> bool:
    return _first(name) in ("", name)


def _first(name: str) -> str:
    """Return the name of the first part; empty when it is not split. Names may claim a hundred thousand parts."""
    return next(iter(parts(name, 1)), "")


def _parts(name: str, names: list[str]) -> tuple[str, ...]:
    together = parts(name, _MOST_PARTS) or (name,)
    if missing := sorted(set(together) - set(names)):
        message = f"the split file {name!r} lacks {_listed(missing)}"
        raise FetchFailed(Code.NOT_FOUND, message, "complete the source, or pick another file")
    return together


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "nothing") + more
