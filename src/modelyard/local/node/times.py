"""The time of day, as Kubernetes writes it."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp() -> str:
    """Return the time now, in seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp() -> str:
    """Return the time now, as Leases take it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
