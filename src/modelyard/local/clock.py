"""The times in objects that this machine writes: the time now, and that of a condition's last transition."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from modelyard.core import times


def timestamp() -> str:
    """Return the time now as a Kubernetes `Time`, in whole seconds."""
    return times.timestamp(datetime.now(UTC))


def micro_timestamp() -> str:
    """Return the time now as a Kubernetes `MicroTime`, which Leases take."""
    return times.micro_timestamp(datetime.now(UTC))


def transition_time(before: dict[str, Any], status: str, now: str) -> str:
    """Return the `lastTransitionTime` of a condition: it moves only when the status value does.

    `before` is the stored condition; empty: there was none.
    """
    return str(before.get("lastTransitionTime", now)) if before.get("status") == status else now
