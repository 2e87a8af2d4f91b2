"""The validation rules of a Model, above all of `spec.source`, each with its remedy.

In the API server they refuse most bad sources. `core/source.py` decides about those that got past them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.errors import SpecInvalid
from modelyard.core.source import parse
from modelyard.kinds.contract import Rule

if TYPE_CHECKING:
    from modelyard.core.objects import Metadata
    from modelyard.kinds.model.api import ModelSpec

_FIELD: Final = "spec.source"
_SOURCE: Final = "self"
_LOWER: Final = "self.lowerAscii()"
_WORD: Final = "[A-Za-z0-9][A-Za-z0-9._-]*"
_REPOSITORY: Final = f"{_WORD}/{_WORD}(@[^/@]+)?"
_HUB_PAGE: Final = "^https?://(www[.]huggingface[.]co|huggingface[.]co|hf[.]co)(/|$)"
_NO_MODEL: Final = "^https?://[^/]+/(datasets|spaces|docs|blog|api|papers|collections)(/|$)"
_IN_A_REPOSITORY: Final = "^https?://[^/]+/[^/]+/[^/?#]+(/(resolve|blob|tree)(/.+)?)?/?([?#].*)?$"


def _means_something(spec: ModelSpec, _: Metadata) -> bool:
    try:
        parse(spec.source)
    except SpecInvalid as error:
        raise SpecInvalid(_FIELD, error.wrong, error.remedy) from error
    return True


def _source_rule(cel: str, message: str) -> Rule:
    return Rule(cel=cel, message=f"spec.source {message}", field=_FIELD, holds=_means_something)


def _matches(text: str, pattern: str) -> str:
    return f"{text}.matches('{pattern}')"


def _of_scheme(scheme: str, pattern: str, message: str) -> Rule:
    return _source_rule(f"!{_LOWER}.startsWith('{scheme}://') || {_matches(_SOURCE, pattern)}", message)


_SOURCES: Final = (
    _source_rule(
        f"!{_SOURCE}.contains('://') || {_matches(_LOWER, '^(https?|file|hf|pvc|s3)://')}",
        "has a scheme that is not known; use one of file, hf, http, https, pvc, s3",
    ),
    _source_rule(
        f"{_SOURCE}.contains('://') || {_SOURCE}.startsWith('/') || {_matches(_SOURCE, f'^{_REPOSITORY}$')}",
        "is neither org/repo nor a URL nor an absolute path; write org/repo for a repository of the hub, "
        "hf://org/repo/file for one file of it, or a URL",
    ),
    _of_scheme("hf", f"^..://{_REPOSITORY}(/.*[^/])?$", "must be hf://org/repo, with @revision and /file if you like"),
    _of_scheme("pvc", f"^...://{_WORD}/.*[^/]$", "must be pvc://claim/path"),
    _of_scheme(
        "s3",
        "^..://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+$",
        "must be s3://bucket/key, or s3://bucket/prefix/ for all below",
    ),
    _of_scheme("file", "^....:///.*[^/]$", "must be file:///path, the absolute path of a file"),
    _source_rule(
        f"!{_SOURCE}.startsWith('/') || !{_SOURCE}.endsWith('/')",
        "must be the path of a file, without a slash at the end",
    ),
    _source_rule(
        f"{_matches(_LOWER, '^https?://')} || !{_matches(_SOURCE, '(^|/)[.][.](/|$)')}", "must not hold .. in its path"
    ),
    _source_rule(
        f"!{_matches(_LOWER, '^https?://')} || {_matches(_LOWER, '^https?://[^/?#]+')}",
        "names no host; write https://host/path",
    ),
    _source_rule(
        f"!{_matches(_LOWER, '^https?://')} || !{_SOURCE}.contains(' ')",
        "must not hold a space in a URL; write it as %20",
    ),
    _source_rule(
        f"!{_matches(_LOWER, _HUB_PAGE)} || ({_matches(_LOWER, _IN_A_REPOSITORY)} && !{_matches(_LOWER, _NO_MODEL)})",
        "is a page of the hub that holds no model; use the address of a repository or of a file in it",
    ),
)

_FRACTION: Final = Rule(
    cel="self > 0.0",
    message="spec.hardware.memoryFraction must be more than 0 and at most 1",
    field="spec.hardware.memoryFraction",
    holds=lambda spec, _: spec.hardware.memory_fraction is None or spec.hardware.memory_fraction > 0,
)

RULES: Final = (*_SOURCES, _FRACTION)
