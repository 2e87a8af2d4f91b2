"""Secrets that a plan depends on: whether they are complete, when to read them again, and a digest of their values.

Kinds never see a value, only a salted hash of it: `runtime/gather.py`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from modelyard.core.conditions import Problem, ready_since
from modelyard.core.plan import RequeueAfter
from modelyard.core.reasons import Reason
from modelyard.core.resources import SECRET
from modelyard.kinds.contract import Named

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Seen

ROTATION = RequeueAfter(60.0, "Secrets are read by name, not watched")
"""When to read a Secret again that may be rotated: a change of it wakes no reader."""

_REASONS = (Reason.SECRET_NOT_FOUND, Reason.SECRET_KEY_MISSING)


def find_problem(seen: Seen, name: str, keys: Sequence[str], field: str) -> Problem | None:
    """Return what is wrong with the Secret that a field names; None: it is complete, or the field names none."""
    if not name:
        return None
    secret = seen.one(Named(SECRET, name))
    if secret is None:
        return Problem(
            Reason.SECRET_NOT_FOUND,
            f"the Secret {name} named by {field} does not exist in this namespace",
            f"create it with the keys {' and '.join(keys)}" if keys else "create it, or name another Secret",
        )
    absent = [key for key in keys if not secret.part("data").get(key)]
    if absent:
        return Problem(
            Reason.SECRET_KEY_MISSING,
            f"the Secret {name} named by {field} lacks {' and '.join(absent)}, or has nothing there",
            "add the missing keys, or name another Secret",
        )
    return None


def requeue_after(obj: Object[Any], now: datetime, problem: Problem) -> RequeueAfter | None:
    """Return when to read a Secret again that is missing; None: the problem is another one, of what is watched."""
    return retry_missing(obj, now) if problem.reason in _REASONS else None


def retry_missing(obj: Object[Any], now: datetime) -> RequeueAfter:
    """Return when to read a missing Secret again: often at first, rarely after a while."""
    waited = (now - since).total_seconds() if (since := ready_since(obj.before)) else 0.0
    return RequeueAfter(5.0 if waited < 60 else 15.0 if waited < 600 else 60.0, "a Secret is missing")


def digest(secret: Stored | None) -> str:
    """Return a digest of a Secret, for an annotation that restarts pods when a value changes; empty: it is absent."""
    if secret is None:
        return ""
    values = sorted(secret.part("data").items())
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
