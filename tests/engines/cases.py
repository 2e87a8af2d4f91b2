"""Case files: how an engine is started for given options, at a given place.

A file `cases/<engine>.yaml` holds the cases of one engine, separated by `---`. Options carry the attribute names that
an engine's options have; the blocks inside them are written as users write them. A case compares all arguments
(`args`), or says which stand there one after the other (`has`) and which do not (`lacks`). Warnings are always
compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml
from msgspec import Struct

from modelyard.core.reasons import Reason
from modelyard.engines import ENGINES
from modelyard.engines.contract import Gpus, Launch, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
FOLDER = Path(__file__).parent / "cases"


class Warned(Struct, frozen=True, forbid_unknown_fields=True):
    """The reason of a warning, and words that its text must hold."""

    says: str
    reason: Reason = Reason.FIELD_IGNORED


class Somewhere(Struct, frozen=True, forbid_unknown_fields=True):
    """A place; what does not matter is filled in."""

    model: str = "/models/m.gguf"
    port: int | None = None
    revision: str = ""
    url: str = ""
    gpus: Gpus = Gpus()
    draft: str = ""
    default_image: bool = True


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """One situation, and what must come of it."""

    why: str
    options: Json = {}
    place: Somewhere = Somewhere()
    args: tuple[str, ...] | None = None
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    command: tuple[str, ...] | None = None
    env: tuple[Json, ...] | None = None
    image: str | None = None
    warns: tuple[Warned, ...] = ()
    finishes: int | None = None


def cases() -> Iterator[tuple[str, Case]]:
    """Return every case with the name of its engine."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path.stem, msgspec.convert(document, Case)


def launched(engine: str, case: Case) -> Launch:
    """Start an engine on paper."""
    found = ENGINES[engine]
    given = {"port": found.port} | {
        name: value for name, value in msgspec.structs.asdict(case.place).items() if value is not None
    }
    return found.launch(msgspec.convert(case.options, found.options), Place(**given))


def stand_together(words: tuple[str, ...], args: tuple[str, ...]) -> bool:
    """Whether words stand in arguments, one right after the other."""
    return any(args[start : start + len(words)] == words for start in range(len(args)))
