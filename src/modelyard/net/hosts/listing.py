"""What hosts say of their models, read tolerantly: daemons differ in names and shapes, and all of them change.

Pure. The dialects call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.core.hosts import MOST_MODELS, HostedModel, ModelState
from modelyard.core.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_ID: Final = 1024
_LONGEST_ERROR: Final = 256
_LONGEST_TEXT: Final = 320
_LONGEST_WORD: Final = 63
_MOST_WORDS: Final = 16
_STEP: Final = 5
_NAMES: Final = ("id", "name", "model")
_STATES: Final = {
    **{state.value: state for state in ModelState},
    "loaded": ModelState.READY,
    "running": ModelState.READY,
    "sleeping": ModelState.READY,
    "error": ModelState.FAILED,
    "pending": ModelState.LOADING,
    "queued": ModelState.LOADING,
}


def entries(body: Any) -> Iterator[dict[str, Any]]:
    """Return the entries of a list of models: bare, or under `models` or `data`."""
    listed = body.get("models", body.get("data")) if isinstance(body, dict) else body
    if not isinstance(listed, list):
        return
    for entry in listed:
        if isinstance(entry, dict) and model_id(entry):
            yield entry


def is_listing(body: Any) -> bool:
    """Return whether a body is a list of models in one of the shapes that are understood."""
    return isinstance(body, list) or (
        isinstance(body, dict) and any(isinstance(body.get(name), list) for name in ("models", "data"))
    )


def model_id(entry: dict[str, Any]) -> str:
    """Return the id of an entry; empty: it has none."""
    said = (entry.get(name) for name in _NAMES)
    return next((one[:_LONGEST_ID] for one in said if isinstance(one, str) and one), "")


def hosted(entry: dict[str, Any]) -> HostedModel:
    """Return one model. An entry without a state is ready; one in a state that is not known is loading."""
    said = entry.get("state") or entry.get("status") or ModelState.READY.value
    state = _STATES.get(str(said).lower(), ModelState.LOADING)
    return HostedModel(
        id=model_id(entry),
        state=state,
        progress=_percent(entry.get("progress")) if state in (ModelState.DOWNLOADING, ModelState.LOADING) else 0,
        memory=number(entry.get("memoryBytes", entry.get("size"))) or 0,
        error=_error(entry.get("error")) if state is ModelState.FAILED else "",
        code=_code(entry.get("error")) if state is ModelState.FAILED else "",
        owner=_text(entry.get("owner")),
        ignored_options=_words(entry.get("ignoredOptions")),
    )


def by_id(models: Iterator[HostedModel]) -> tuple[HostedModel, ...]:
    """Return models sorted by id, each once: two answers that say the same are equal.

    Of too many, those that have an owner stay: an InferenceModel waits for each of ours to be listed.
    """
    found = sorted({model.id: model for model in models}.values(), key=lambda model: (not model.owner, model.id))
    return tuple(sorted(found[:MOST_MODELS], key=lambda model: model.id))


def number(value: Any) -> int | None:
    """Return a number of bytes; None: it is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < 2**62 else None


def _percent(progress: Any) -> int:
    """Return a progress in percent, rounded down to steps: every step is a write to the status."""
    if isinstance(progress, dict):
        done, total = number(progress.get("done")), number(progress.get("total"))
        share = done / total if done and total else 0.0
    else:
        share = progress if isinstance(progress, int | float) else 0.0
    return int(min(max(share, 0.0), 1.0) * 100) // _STEP * _STEP


def _code(said: Any) -> str:
    return _text(said.get("code") if isinstance(said, dict) else "")


def _text(value: Any) -> str:
    return clean(value, _LONGEST_TEXT) if isinstance(value, str) else ""


def _words(value: Any) -> tuple[str, ...]:
    found = {clean(one, _LONGEST_WORD) for one in value if isinstance(one, str)} if isinstance(value, list) else ()
    return tuple(sorted(found)[:_MOST_WORDS])


def _error(said: Any) -> str:
    text = said.get("message", "") if isinstance(said, dict) else said
    return clean(str(text or "it does not say why"), _LONGEST_ERROR)
