"""Checks: what a kind wants to know from programs other than the API server, as values.

A kind names a check in its `reads` (`Asked`) and lists its type in `asks`. The poller of `net/` repeats the check and
wakes the object when the answer has changed. Kubelets have probes; these checks are the operator's own.

A new type of check is a subclass of `Check` in a file of its own here, a function that answers it in `net/` or `kube/`,
and one line in `app.answerers`. Poller, contract and RBAC role know none of the types by name.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from modelyard.core.grants import Grant
from modelyard.core.reasons import Reason


class Check(Struct, frozen=True):
    """One question to one program. Equal checks are one check, however many objects ask it.

    So a check has to carry whatever makes an earlier answer worthless, such as the pod template of the server asked.
    """

    grants: ClassVar[tuple[Grant, ...]] = ()
    """What the operator must be allowed to do in order to find the answer. The RBAC role follows from it."""

    @property
    def every(self) -> float:
        """Seconds from a good answer to the next poll. A type with another interval has a field of this name."""
        return 30.0


class Answer(Struct, frozen=True):
    """The result of a check, reduced to what a status depends on: equal answers wake no object."""

    ok: bool
    reason: Reason
    message: str
    value: dict[str, Any] = {}
