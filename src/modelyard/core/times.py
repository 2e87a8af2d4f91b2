"""Timestamps in the two formats of the Kubernetes API: Time and MicroTime."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """Return a Time, as in conditions: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """Return a MicroTime, as in Leases and Events: UTC, microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_since(since: str, now: datetime) -> float:
    """Return the seconds since a Time that a status holds; 0 if it is still to come, or makes no sense.

    Clocks are set back, and a status can be edited: neither must end a wait at once, nor be a bug of ours.
    """
    try:
        return max(0.0, (now - datetime.fromisoformat(since)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
