"""Secrets that a plan depends on. Kinds never see a value, only a salted hash of it (see runtime/gather.py)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from modelyard.core.conditions import Problem
from modelyard.core.plan import Later
from modelyard.core.reasons import Reason
from modelyard.core.resources import SECRET
from modelyard.kinds.contract import Named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.stored import Stored
    from modelyard.kinds.contract import Seen

LOOK_AGAIN = Later(30.0, "Secrets are read by name, not watched")


def missing(seen: Seen, name: str, keys: Iterable[str], field: str) -> Problem | None:
    """Return what is wrong with a Secret that a field names: it is absent, or lacks a key."""
    if not name:
        return None
    secret = seen.one(Named(SECRET, name))
    if secret is None:
        return Problem(
            Reason.SECRET_NOT_FOUND,
            f"the Secret {name} named by {field} does not exist in this namespace",
            f"create it with the keys {' and '.join(keys)}",
        )
    absent = [key for key in keys if not secret.part("data").get(key)]
    if absent:
        return Problem(
            Reason.SECRET_KEY_MISSING,
            f"the Secret {name} lacks {' and '.join(absent)}",
            "add what is missing, or name another Secret",
        )
    return None


def digest(secret: Stored | None) -> str:
    """Return what changes whenever a value of the Secret does, for a pod template to carry."""
    if secret is None:
        return ""
    values = sorted(secret.part("data").items())
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
