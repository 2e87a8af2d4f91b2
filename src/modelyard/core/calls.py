"""Calls: requests that change something on a machine outside the cluster, as values in a plan.

A plan names a call for as long as it wants it made, like a child that should exist. `net/` makes it beside the checks,
never inside a reconcile, and wakes the object when the result is there. It is made again after a failure, with
back-off, and not after a success. When a plan no longer names it, its result is forgotten, and one that is under way is
given up. After a restart of the operator nothing is known of earlier calls: a plan that still names one makes it again.
So calls have to be safe to repeat, and a kind has to learn by a check, or remember, what needs no call any more.
"""

from __future__ import annotations

from math import inf

from modelyard.core.checks import Check


class Call(Check, frozen=True):
    """One request. Equal calls are one call: what has to be made once per object carries the UID of the object.

    A new type of call is a subclass in a file of its own, a function that makes it in `net/`, and one line in
    `app.callers`.
    """

    @property
    def every(self) -> float:
        """A call that has succeeded is not made again."""
        return inf
