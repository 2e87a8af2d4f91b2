"""The check of a container's log, answered by `kube/log_tail.py`."""

from __future__ import annotations

from typing import ClassVar

from modelyard.core.checks import Check
from modelyard.core.grants import Grant
from modelyard.core.resources import POD


class LogTail(Check, frozen=True):
    """Read the last line of JSON that a container of ours has logged."""

    grants: ClassVar[tuple[Grant, ...]] = (Grant(POD, "log", ("get",)),)

    namespace: str
    pod: str
    container: str
    every: float = 10.0
