"""The times in objects that this machine writes."""

from __future__ import annotations

from datetime import UTC, datetime

from modelyard.core import times


def timestamp() -> str:
    """Return the time now as a Kubernetes `Time`, in whole seconds."""
    return times.timestamp(datetime.now(UTC))


def micro_timestamp() -> str:
    """Return the time now as a Kubernetes `MicroTime`, which Leases take."""
    return times.micro_timestamp(datetime.now(UTC))
