"""Calls: requests that change something on a machine outside the cluster, as values in a plan.

A plan names a call for as long as it should be made, like a child that should exist. A poller of `net/` makes it,
never a reconcile, and wakes the object when there is a result. After a failure it is made again, with back-off; after a
success it is not. When a plan no longer names it, its result is forgotten, and a request under way is cancelled. After
a restart of the operator nothing is known of earlier calls, and a plan that still names one makes it again. So calls
must be safe to repeat, and a kind must learn from a check, or from its memory, that one is not needed any more.
"""

from __future__ import annotations

from math import inf

from modelyard.core.checks import Check


class Call(Check, frozen=True):
    """One request. Equal calls are made once: a call that each object needs for itself carries the UID of the object.

    A new type of call is a subclass in a file of its own, a function that makes it in `net/`, and one line in
    `app.callers`.
    """

    @property
    def every(self) -> float:
        """A call that has succeeded is not made again."""
        return inf
