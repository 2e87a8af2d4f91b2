"""The catalogue of reasons: every condition and event that Modelyard writes carries one of these.

`docs/reasons.md` explains each to users, and a test keeps the two lists equal.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why a condition is what it is. The value is what users read."""

    # Good news
    READY = "Ready"
    PODS_READY = "PodsReady"
    ANSWERED = "Answered"

    # On the way
    STARTING = "Starting"
    ROLLING_OUT = "RollingOut"
    WAITING_FOR_PODS = "WaitingForPods"
    WAITING_FOR_ANSWER = "WaitingForAnswer"
    WAITING_FOR_CLEANUP = "WaitingForCleanup"
    SCALED_TO_ZERO = "ScaledToZero"
    PAUSED = "Paused"

    # The user has to act
    INVALID_SPEC = "InvalidSpec"
    NOTHING_TO_RUN = "NothingToRun"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a reason, not a password
    SECRET_KEY_MISSING = "SecretKeyMissing"  # noqa: S105 - a reason, not a password
    NAME_CONFLICT = "NameConflict"
    CHILD_REFUSED = "ChildRefused"
    FIELD_NOT_KEPT = "FieldNotKept"
    FIELD_CONTESTED = "FieldContested"
    FORBIDDEN = "Forbidden"

    # The pods have trouble
    CRASH_LOOP = "CrashLoop"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_CONFIG_INVALID = "ContainerConfigInvalid"
    OUT_OF_MEMORY = "OutOfMemory"
    UNSCHEDULABLE = "Unschedulable"
    PODS_REFUSED = "PodsRefused"
    ROLLOUT_STUCK = "RolloutStuck"

    # The server has trouble
    UNAUTHORIZED = "Unauthorized"
    NO_ANSWER = "NoAnswer"
    BAD_ANSWER = "BadAnswer"

    # Events
    RECOVERED = "Recovered"
    RESTORED = "Restored"

    # Trouble of the cluster, or our own
    API_UNAVAILABLE = "ApiUnavailable"
    INTERNAL_ERROR = "InternalError"


PROBLEMS: Final = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.NOTHING_TO_RUN,
        Reason.SECRET_NOT_FOUND,
        Reason.SECRET_KEY_MISSING,
        Reason.NAME_CONFLICT,
        Reason.CHILD_REFUSED,
        Reason.FIELD_NOT_KEPT,
        Reason.FIELD_CONTESTED,
        Reason.FORBIDDEN,
        Reason.CRASH_LOOP,
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_CONFIG_INVALID,
        Reason.OUT_OF_MEMORY,
        Reason.UNSCHEDULABLE,
        Reason.PODS_REFUSED,
        Reason.ROLLOUT_STUCK,
        Reason.UNAUTHORIZED,
        Reason.NO_ANSWER,
        Reason.BAD_ANSWER,
        Reason.INTERNAL_ERROR,
    }
)
"""What a person must notice: each becomes a warning event when it appears."""
