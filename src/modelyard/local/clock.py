"""The time of day, as Kubernetes writes it."""

from __future__ import annotations

from datetime import UTC, datetime

from modelyard.core import times


def timestamp() -> str:
    """Return the time now, in seconds."""
    return times.timestamp(datetime.now(UTC))


def micro_timestamp() -> str:
    """Return the time now, as Leases take it."""
    return times.micro_timestamp(datetime.now(UTC))
