"""Decode a stored object into a typed one, or into an error that names the field and the remedy.

Called at the start of every reconcile, and by `modelyard plan`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from modelyard.core.errors import SpecInvalid
from modelyard.core.pod_fields import REMEDIES
from modelyard.kinds.contract import Kind, Object, Rule

if TYPE_CHECKING:
    from msgspec import Struct

    from modelyard.core.objects import Json, Metadata, Stored

_AT = re.compile(r"^(?P<wrong>.*?)(?: - at (?:`key` in )?`(?P<path>[^`]*)`)?$", re.DOTALL)
_REMEDIES = {f"expected `str` matching regex {pattern!r}": words for pattern, words in REMEDIES.items()}


def decode(kind: Kind, stored: Stored) -> Object[Any]:
    """Return an object with its spec decoded and all rules checked; SpecInvalid: the first field that is wrong.

    The API server has validated it too, but perhaps against an older CRD.
    """
    try:
        spec = msgspec.json.decode(stored.parts.get("spec", b"{}"), type=kind.spec)
    except msgspec.ValidationError as error:
        raise _spec_invalid(error) from error
    for rule in kind.rules:
        if not _holds(rule, spec, stored.meta):
            raise SpecInvalid(rule.field, "is not valid", rule.message)
    status = stored.part("status")
    before = status if isinstance(status, dict) else {}
    return Object(meta=stored.meta, spec=spec, before=before, memory=decode_memory(kind, before))


def decode_memory(kind: Kind, status: Json) -> Struct | None:
    """Return the memory in a stored status; None: the kind has no memory.

    A status that does not decode is an empty memory: the object then decides as if it were new.
    """
    if kind.memory is None:
        return None
    try:
        return msgspec.convert(status, kind.memory)
    except msgspec.ValidationError:
        return kind.memory()


def _holds(rule: Rule, spec: Any, meta: Metadata) -> bool:
    try:
        return rule.holds(spec, meta)
    except ValueError:
        return False


def _spec_invalid(error: msgspec.ValidationError) -> SpecInvalid:
    match = _AT.match(str(error))
    path = (match and match["path"]) or "$"
    wrong = (match and match["wrong"]) or str(error)
    field = re.sub(r"\[\.\.\.\]", "[]", path.replace("$", "spec", 1))
    wrong = wrong[:1].lower() + wrong[1:]
    if remedy := _REMEDIES.get(wrong):
        return SpecInvalid(field, "is not valid", remedy)
    return SpecInvalid(field, wrong, "correct it; `kubectl explain` describes it")
