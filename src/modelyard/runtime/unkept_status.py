"""What of a status the API server did not keep, so that it is not written again at every reconcile.

A definition of another version, or of the operator that the kind comes from, drops the fields that it does not know.
All of this may be forgotten at any time: a restart costs one write for each such object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from modelyard.runtime.status import LAST_UPDATED

if TYPE_CHECKING:
    from modelyard.core.objects import Json, Stored
    from modelyard.core.resources import Resource

_log = structlog.get_logger()


class UnkeptStatus:
    """The patches that were written and changed nothing, for every object by UID."""

    def __init__(self) -> None:
        self._unkept: dict[str, Json] = {}
        self._told: set[Resource] = set()

    def is_known(self, stored: Stored, patch: Json) -> bool:
        """Return whether a patch holds only what was written before and not kept."""
        return self._unkept.get(stored.meta.uid) == _compared(patch)

    def record_response(self, answer: Stored, left: Json) -> None:
        """Record the response to a write of a status; `left` is what still differs in it, empty: nothing."""
        if not left:
            self._unkept.pop(answer.meta.uid, None)
            return
        self._unkept[answer.meta.uid] = _compared(left)
        if answer.resource not in self._told:
            self._told.add(answer.resource)
            _log.warning(
                "the definition drops status fields; apply deploy/crds.yaml of this version and restart the operator",
                resource=answer.resource.label,
                fields=sorted(_compared(left)),
            )

    def forget(self, uid: str) -> None:
        """Drop what is known of an object that is gone."""
        self._unkept.pop(uid, None)


def _compared(patch: Json) -> Json:
    return {name: value for name, value in patch.items() if name != LAST_UPDATED}
